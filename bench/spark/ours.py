"""Our side of the race."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

import hoodoo
from bench.spark import data
from bench.spark.session import CODEC
from bench.spark.sides import RECORD_INDEX, Phases, into_noop

OUR_RECORD_INDEX = {
    key: value for key, value in RECORD_INDEX.items() if "partition.stats" not in key
}


class Hoodoo:
    """hoodoo, with the index and the codec that the other sides have."""

    drain = staticmethod(into_noop)

    def __init__(self, *, partitioned: bool) -> None:
        self._partitioned = partitioned

    def load(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Bulk insert into a new table."""
        table = hoodoo.create_table(
            place,
            schema=rows.schema,
            name="trips",
            record_key=data.KEY,
            partition_by=data.PARTITION if self._partitioned else None,
            ordering=data.ORDERING,
            table_type=kind.partition("-")[0],
            options=self._options(kind),
        )
        return table.bulk_insert(rows).timings

    def upsert(self, rows: DataFrame, place: str, kind: str) -> Phases:
        """Upsert."""
        return hoodoo.open_table(place, self._options(kind)).upsert(rows).timings

    def merge(self, rows: DataFrame, place: str) -> Phases:
        """Merge by key, everything of the new rows."""
        on = [data.KEY, data.PARTITION] if self._partitioned else [data.KEY]
        done = hoodoo.open_table(place).merge(
            rows, on, when_matched_update=True, when_not_matched_insert=True
        )
        return done.timings if done is not None else {}

    def erase(self, spark: SparkSession, place: str, where: str) -> Phases:
        """Delete by predicate."""
        done = hoodoo.open_table(place).delete(where=where, spark=spark)
        return done.timings if done is not None else {}

    def _options(self, kind: str) -> dict[str, object]:
        options: dict[str, object] = {"hoodie.parquet.compression.codec": CODEC}
        if kind.endswith("bucket"):
            options["hoodie.index.type"] = "BUCKET"
            options["hoodie.bucket.index.num.buckets"] = 1 if self._partitioned else data.FILES
        elif kind.endswith("record"):
            options |= OUR_RECORD_INDEX
        else:
            options["hoodie.index.type"] = "SIMPLE"
        return options

    def read(self, spark: SparkSession, place: str) -> DataFrame:
        """Snapshot, without meta columns."""
        return hoodoo.open_table(place).read(spark, columns=data.COLUMNS)
