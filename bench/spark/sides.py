"""The sides of the race that need nothing but a Spark session and a jar.

A side loads a table, upserts into it and reads it. `kind` says what table: copy on write or merge
on read, with which index; a side without such a choice leaves it alone. Writes answer with the
seconds of their phases, if they know them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 what Spark's own pages call it

from bench.spark import data
from bench.spark.session import CODEC

Phases = Mapping[str, float]

RECORD_INDEX = {
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
"""Upserts find their keys by a record index; the metadata table has nothing else but a listing."""


class Side(Protocol):
    """One way to keep a table."""

    def load(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Make a new table of these rows."""

    def upsert(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Update the rows whose keys are there, add the others."""

    def read(self, spark: SparkSession, place: str) -> DataFrame:
        """The table's present rows, without columns of the side's own."""

    def drain(self, rows: DataFrame) -> None:
        """Have all rows read, for nothing."""


@runtime_checkable
class Changing(Protocol):
    """A side that changes rows by predicate."""

    def merge(self, rows: DataFrame, place: str) -> Phases:
        """Update the rows that have equal keys, add the others."""

    def erase(self, spark: SparkSession, place: str, where: str) -> Phases:
        """Delete the rows for which a condition is true."""


def into_noop(rows: DataFrame) -> None:
    """Have all rows read into the sink that Spark has for this."""
    rows.write.format("noop").mode("overwrite").save()


class Plain:
    """Parquet files and no table format: an upsert writes everything anew."""

    drain = staticmethod(into_noop)

    def __init__(self, *, partitioned: bool) -> None:
        self._partitions = (data.PARTITION,) if partitioned else ()

    def load(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Write the rows as files."""
        rows.write.partitionBy(*self._partitions).parquet(place)
        return {}

    def upsert(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Old rows without the keys of new ones, and the new ones; then the directories change.

        Kind `broadcast` tells Spark to broadcast the keys, which it does not do by itself.
        """
        keys = rows.select(data.KEY)
        if kind == "broadcast":
            keys = F.broadcast(keys)
        kept = self.read(rows.sparkSession, place).join(keys, data.KEY, "left_anti")
        following = f"{place}-next"
        self.load(kept.unionByName(rows), following, kind)
        shutil.rmtree(place)
        Path(following).rename(place)
        return {}

    def read(self, spark: SparkSession, place: str) -> DataFrame:
        """What Spark makes of the files."""
        return spark.read.parquet(place)


class Hudi:
    """Apache Hudi through its bundle: row writer for the load, otherwise as it comes.

    What does not belong to the write is switched off: cleaning, the timeline server, and (unless
    `defaults`, or the index is in it) the metadata table, which the other sides do not keep either.
    """

    drain = staticmethod(into_noop)

    def __init__(self, *, partitioned: bool, defaults: bool = False) -> None:
        self._partitioned = partitioned
        self._defaults = defaults

    @staticmethod
    def settings(bundle: str) -> dict[str, str]:
        """What the session needs."""
        return {
            "spark.jars": bundle,
            "spark.driver.extraClassPath": bundle,
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }

    def load(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Bulk insert into a new table."""
        return self._write(rows, place, kind, "bulk_insert", "overwrite")

    def upsert(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Upsert."""
        return self._write(rows, place, kind, "upsert", "append")

    def _write(self, rows: DataFrame, place: str, kind: str, operation: str, mode: str) -> Phases:
        options = {"hoodie.datasource.write.operation": operation, **self._options(kind)}
        rows.write.format("hudi").options(**options).mode(mode).save(place)
        return {}

    def _options(self, kind: str) -> dict[str, str]:
        keys = "org.apache.hudi.keygen."
        bucket = kind.endswith("bucket")
        named = {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.table.type": (
                "MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE"
            ),
            "hoodie.datasource.write.recordkey.field": data.KEY,
            "hoodie.datasource.write.precombine.field": data.ORDERING,
            "hoodie.datasource.write.partitionpath.field": (
                data.PARTITION if self._partitioned else ""
            ),
            "hoodie.datasource.write.keygenerator.class": keys
            + ("SimpleKeyGenerator" if self._partitioned else "NonpartitionedKeyGenerator"),
            "hoodie.datasource.write.row.writer.enable": "true",
            "hoodie.index.type": "BUCKET" if bucket else "SIMPLE",
            "hoodie.parquet.compression.codec": CODEC,
            "hoodie.clean.automatic": "false",
            "hoodie.embed.timeline.server": "false",
        }
        if bucket:
            named["hoodie.bucket.index.num.buckets"] = "1" if self._partitioned else str(data.FILES)
        if kind.endswith("record"):
            named |= RECORD_INDEX
        elif not self._defaults:
            named["hoodie.metadata.enable"] = "false"
        return named

    def serve(
        self, spark: SparkSession, place: str, service: str, *, order: str, limit_bytes: int
    ) -> None:
        """Plan a compaction or a clustering, and execute it."""
        options = {
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.parquet.compression.codec": CODEC,
            "hoodie.compact.inline.max.delta.commits": "1",
        }
        how = f"order => '{order}', " if service == "clustering" else ""
        if limit_bytes:
            strategy = "hoodie.clustering.plan.strategy"
            options |= {
                f"{strategy}.max.bytes.per.group": str(limit_bytes),
                f"{strategy}.target.file.max.bytes": str(limit_bytes),
            }
        told = ",".join(f"{key}={value}" for key, value in options.items())
        spark.sql(
            f"call run_{service}(op => 'scheduleAndExecute', path => '{place}', {how}"
            f"options => '{told}')"
        ).collect()

    def read(self, spark: SparkSession, place: str) -> DataFrame:
        """Snapshot query, without meta columns."""
        return spark.read.format("hudi").load(place).select(*data.COLUMNS)


class Delta:
    """Delta through its jars: MERGE, with deletion vectors where the kind is merge on read."""

    def __init__(self, *, partitioned: bool) -> None:
        self._partitions = (data.PARTITION,) if partitioned else ()

    @staticmethod
    def settings(jars: str) -> dict[str, str]:
        """What the session needs."""
        return {
            "spark.jars": jars,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # 50, the default, is for clusters: its log is read by that many tasks.
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def load(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Write a new table."""
        vectors = str(kind.startswith("mor")).lower()
        writer = rows.write.format("delta").option("delta.enableDeletionVectors", vectors)
        writer.partitionBy(*self._partitions).save(place)
        return {}

    def upsert(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """MERGE by key, everything of the new rows."""
        rows.createOrReplaceTempView("incoming")
        same = f"t.{data.KEY} = s.{data.KEY}"
        if self._partitions:
            same += f" AND t.{data.PARTITION} = s.{data.PARTITION}"
        rows.sparkSession.sql(
            f"MERGE INTO delta.`{place}` t USING incoming s ON {same} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()
        return {}

    def merge(self, rows: DataFrame, place: str) -> Phases:
        """MERGE, as an upsert is."""
        return self.upsert(rows, place, "")

    def erase(self, spark: SparkSession, place: str, where: str) -> Phases:
        """DELETE."""
        spark.sql(f"DELETE FROM delta.`{place}` WHERE {where}").collect()
        return {}

    def read(self, spark: SparkSession, place: str) -> DataFrame:
        """The newest version."""
        return spark.read.format("delta").load(place)

    def drain(self, rows: DataFrame) -> None:
        """Counted one by one: from a table with deletion vectors Delta refuses the noop sink."""
        rows._jdf.queryExecution().toRdd().count()
