"""Recipes by which Apache Hudi makes tables: each one a small history of writes and services.

A recipe is a function of a `Maker`; its name is the name of the table. `RECIPES` holds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from compat.peer_client import Peer
from compat.peer_rows import FIRST, ODD, narrow, trips, two_level, typed

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.table.ordering.fields"
OPERATION = "hoodie.datasource.write.operation"
TYPE = "hoodie.datasource.write.table.type"
HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
KEYGEN = "hoodie.datasource.write.keygenerator.class"
METADATA = "hoodie.metadata.enable"
LOG_FORMAT = "hoodie.logfile.data.block.format"
VERSION = "hoodie.write.table.version"
TIMEBASED = "hoodie.keygen.timebased."

DEFAULTS = {
    "hoodie.table.name": "t",
    KEY: "id",
    PARTITION: "city",
    ORDERING: "ts",
    HIVE: "true",
    METADATA: "false",
    "hoodie.embed.timeline.server": "false",
    # Tables of a few rows: tasks and large filters cost more than they save.
    "hoodie.index.bloom.num_entries": "1000",
    **{
        f"hoodie.{what}.parallelism": "1"
        for what in ("insert.shuffle", "upsert.shuffle", "delete.shuffle", "bulkinsert.shuffle")
    },
}
MOR = {TYPE: "MERGE_ON_READ"}
PARQUET_LOG = {LOG_FORMAT: "parquet"}
FILES_INDEX = {
    METADATA: "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
COMMIT_TIME = {ORDERING: "", "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTER = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


class Maker:
    """One table in the making: Hudi's writer with the options of a recipe."""

    def __init__(self, hudi: Peer, path: Path, options: Mapping[str, str] | None = None) -> None:
        self.hudi = hudi
        self.path = path
        self.options = {**DEFAULTS, **(options or {})}

    def write(
        self, rows: pa.Table, operation: str = "upsert", options: Mapping[str, str] | None = None
    ) -> None:
        chosen = {**self.options, OPERATION: operation, **(options or {})}
        # An option set to nothing is one that the recipe takes away.
        self.hudi.write(self.path, rows, {k: v for k, v in chosen.items() if v})

    def upsert(self, *lines: str) -> None:
        self.write(trips(*lines))

    def delete(self, *lines: str) -> None:
        self.write(trips(*lines), "delete")

    def call(self, procedure: str, **arguments: str) -> None:
        given = ", ".join(f"{name} => '{value}'" for name, value in arguments.items())
        self.hudi.sql(f"call {procedure}(path => '{self.path}', {given})")

    def completed(self, action: str) -> list[Path]:
        """The completed instants of an action, oldest first."""
        return sorted((self.path / ".hoodie" / "timeline").glob(f"[0-9]*_*.{action}"))

    def shows(self, pattern: str) -> None:
        """Checks that Hudi did leave what the recipe is about."""
        assert list((self.path / ".hoodie" / "timeline").glob(pattern)), f"no {pattern}"

    def lose(self, action: str) -> None:
        """Undoes the last step of the newest write, as if its writer had died before it.

        Its marker files are made again: Hudi deletes them after the step that is undone here,
        and finds what to roll back by them.
        """
        last = self.completed(action)[-1]
        instant = last.name[:17]
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        for file in self.path.glob(f"[!.]*/*_{instant}.*"):
            if not file.name.endswith(".crc"):
                markers = self.path / ".hoodie" / ".temp" / instant / file.parent.name
                markers.mkdir(parents=True, exist_ok=True)
                (markers / f"{file.name}.marker.CREATE").touch()


Recipe = Callable[[Maker], None]
RECIPES: dict[str, tuple[Recipe, dict[str, str]]] = {}


def recipe(**variants: Mapping[str, str]) -> Callable[[Recipe], Recipe]:
    """Registers a recipe, once per named set of options."""

    def register(build: Recipe) -> Recipe:
        for suffix, options in variants.items():
            RECIPES[f"{build.__name__}_{suffix}"] = (build, dict(options))
        return build

    return register


@recipe(
    cow={},
    cow_plain_commit_time=COMMIT_TIME | {HIVE: "false"},
    cow_v6={VERSION: "6"},
    mor_avro=MOR,
    mor_parquet=MOR | PARQUET_LOG,
    mor_metadata=MOR | {METADATA: "true"},
    mor_commit_time=MOR | COMMIT_TIME,
    mor_bucket=MOR | {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    mor_v6=MOR | {VERSION: "6"},
    mor_v8=MOR | {VERSION: "8"},
    mor_compacted=MOR | COMPACT,
    mor_cdc=MOR | {"hoodie.table.cdc.enabled": "true"},
)
def life(table: Maker) -> None:
    """Insert; update, one of them late, and a new row in a new partition; delete."""
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "c la 0 -1", "f rome 1 60", "g sf 1 70")
    table.delete("b sf 3 0", "e ny 0 0")


@recipe(cow={}, mor=MOR)
def keys_two(table: Maker) -> None:
    """Two key columns and two partition columns: the complex key generator."""
    table.options |= {KEY: "id,n", PARTITION: "city,year"}
    rows = two_level("a 1 sf 2024 10", "a 2 sf 2024 20", "b - la 2025 30", "c 3 - 2025 40")
    table.write(rows, "insert")
    table.write(two_level("a 2 sf 2024 21", "b - la 2025 31", "d 4 ny 2023 50"))


@recipe(mor=MOR)
def keys_complex_one(table: Maker) -> None:
    """One key column under the complex key generator: its text keeps the field's name."""
    table.options |= {KEYGEN: "org.apache.hudi.keygen.ComplexKeyGenerator"}
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "f ny 1 60")


@recipe(mor=MOR, cow_metadata=FILES_INDEX)
def flat(table: Maker) -> None:
    """No partitions, one key."""
    table.options |= {PARTITION: ""}
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "f ny 1 60")
    table.delete("c la 9 0")


@recipe(cow={})
def flat_keys_two(table: Maker) -> None:
    """No partitions, two keys."""
    table.options |= {PARTITION: "", KEY: "id,city"}
    table.write(trips(*FIRST, "a la 1 12"), "insert")
    table.upsert("a la 2 13", "f ny 1 60")


@recipe(cow={})
def keyless(table: Maker) -> None:
    """No key at all: Hudi makes keys up."""
    table.options |= {KEY: "", ORDERING: ""}
    table.write(trips(*FIRST), "insert")
    table.write(trips("x sf 1 1", "x sf 1 1"), "bulk_insert")


@recipe(mor=MOR)
def no_meta_fields(table: Maker) -> None:
    """Meta columns left empty: keys are computed by the reader."""
    table.options |= {"hoodie.populate.meta.fields": "false", "hoodie.index.type": "SIMPLE"}
    table.write(trips(*FIRST), "bulk_insert")
    table.upsert("a sf 2 11", "f ny 1 60")


@recipe(
    millis={
        PARTITION: "at",
        TIMEBASED + "timestamp.type": "EPOCHMILLISECONDS",
        TIMEBASED + "output.dateformat": "yyyy/MM/dd",
        HIVE: "false",
    },
    text={
        PARTITION: "at",
        TIMEBASED + "timestamp.type": "DATE_STRING",
        TIMEBASED + "input.dateformat": "yyyy-MM-dd'T'HH:mm:ssZ",
        TIMEBASED + "output.dateformat": "yyyy-MM-dd",
    },
    custom={
        KEYGEN: "org.apache.hudi.keygen.CustomKeyGenerator",
        PARTITION: "id:SIMPLE,at:TIMESTAMP",
        TIMEBASED + "timestamp.type": "EPOCHMILLISECONDS",
        TIMEBASED + "output.dateformat": "yyyy",
    },
)
def timed(table: Maker) -> None:
    """Partitions from a time by the timestamp-based key generator, or by the custom one."""
    timed_keys = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
    table.options = {KEYGEN: timed_keys, TIMEBASED + "timezone": "UTC", **table.options}
    at = pa.array([1705314600000, 1705401000001, -1], pa.int64())
    if TIMEBASED + "input.dateformat" in table.options:
        texts = ["2024-01-15T10:30:00+0000", "2024-01-16T23:30:00-0500", "1969-12-31T23:59:59+0000"]
        at = pa.array(texts)
    table.write(trips("a - 1 1", "b - 1 2", "c - 1 3").append_column("at", at), "insert")


@recipe(mor=MOR, cow_metadata=FILES_INDEX, cow_plain={HIVE: "false"})
def odd_partitions(table: Maker) -> None:
    """Partition values that need escaping, among them null."""
    table.options |= {ENCODE: "true"}
    ids = [f"k{n:02}" for n in range(len(ODD))]
    rows = trips(*(f"{key} - 1 {n}" for n, key in enumerate(ids)))
    table.write(rows.set_column(1, "city", pa.array(ODD, pa.string())), "insert")
    table.write(rows.set_column(1, "city", pa.array(ODD, pa.string())).slice(3, 4))


@recipe(cow={}, mor_metadata=MOR | FILES_INDEX)
def overwritten(table: Maker) -> None:
    """One partition overwritten, then written to again."""
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "c la 2 31")
    table.write(trips("x la 1 1", "y rome 1 2"), "insert_overwrite")
    table.upsert("x la 2 9", "z la 1 3")
    table.shows("*_*.replacecommit")


@recipe(mor=MOR)
def overwritten_whole(table: Maker) -> None:
    table.write(trips(*FIRST), "insert")
    table.write(trips("x la 1 1", "y rome 1 2"), "insert_overwrite_table")


@recipe(mor=MOR)
def partition_deleted(table: Maker) -> None:
    table.write(trips(*FIRST), "insert")
    which = {"hoodie.datasource.write.partitions.to.delete": "city=la"}
    table.write(trips("q la 1 1"), "delete_partition", which)
    table.upsert("a sf 2 11")


@recipe(cow={}, mor=MOR, mor_parquet=MOR | PARQUET_LOG)
def evolved(table: Maker) -> None:
    """A column added, then int widened to long and float to double; old files stay."""
    table.write(narrow("a sf 1 1.5", "b sf 1 2.5", "c la 1 3.5"), "insert")
    more = narrow("a sf 2 1.75", "d la 1 4.5")
    table.write(more.append_column("tip", pa.array(["t1", None], pa.string())))
    wide = narrow("b sf 3000000000 0.1", "e la 1 5.5").cast(
        pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "fare": pa.float64()})
    )
    table.write(wide.append_column("tip", pa.array(["t2", "t3"], pa.string())))


@recipe(mor=MOR)
def marked(table: Maker) -> None:
    """Deletes by a column of the rows: they carry ordering values, and may lose by them."""
    for lines, gone in ((FIRST, False), (("a sf 2 0", "c la 1 0", "d la 0 0"), True)):
        flags = pa.array([gone] * len(lines))
        table.write(trips(*lines).append_column("_hoodie_is_deleted", flags))


@recipe(cow={}, mor=MOR, mor_parquet=MOR | PARQUET_LOG)
def all_types(table: Maker) -> None:
    table.write(typed(0, 4), "insert")
    table.write(typed(2, 6))


@recipe(mor=MOR | CLUSTER, cow_metadata=CLUSTER | FILES_INDEX)
def clustered(table: Maker) -> None:
    """Clustering after each commit: file groups replaced by new ones."""
    table.options |= {"hoodie.clustering.plan.strategy.sort.columns": "fare"}
    table.write(trips(*FIRST), "insert", {"hoodie.clustering.inline": "false"})
    table.upsert("a sf 2 11", "f sf 1 5")
    table.write(trips("b sf 2 22", "c la 2 33"), options={"hoodie.clustering.inline": "false"})
    table.shows("*.clustering.requested")


@recipe(mor=MOR)
def compaction_pending(table: Maker) -> None:
    """A compaction that is planned but not run, and writes after it."""
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "c la 2 31")
    schedule = {
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    table.write(trips("b sf 2 22"), options=schedule)
    table.upsert("a sf 3 12", "d la 2 41", "g sf 1 70")
    table.shows("*.compaction.requested")


@recipe(mor=MOR)
def log_compacted(table: Maker) -> None:
    table.options |= {
        "hoodie.compact.inline": "false",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 2", "c la 2 2")
    table.upsert("a sf 3 3")
    table.delete("b sf 9 0")
    table.shows("*.logcompaction.requested")


@recipe(cow={}, mor_metadata=MOR | FILES_INDEX)
def pending(table: Maker) -> None:
    """The newest write never completed; its files lie in the partitions."""
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 3 99", "z sf 3 99", "y oslo 3 99")
    table.lose(_delta(table))


@recipe(mor=MOR)
def rolled_back(table: Maker) -> None:
    """A write that died, rolled back by the next one."""
    pending(table)
    table.upsert("b sf 4 24")
    table.shows("*_*.rollback")


@recipe(mor=MOR)
def archived(table: Maker) -> None:
    """So many commits that the oldest moved into the history; cleaned along the way."""
    table.options |= {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
        "hoodie.commits.archival.batch": "1",
        **COMPACT,
    }
    table.write(trips(*FIRST), "insert")
    for n in range(2, 6):
        table.upsert(f"a sf {n} {n}", f"n{n} la 1 {n}")
    table.shows("history/*.parquet")
    table.shows("*.clean")


@recipe(cow={})
def restored(table: Maker) -> None:
    """Back to a savepoint that the cleaner had to respect."""
    table.options |= {"hoodie.clean.commits.retained": "1"}
    table.write(trips(*FIRST), "insert")
    saved = table.completed("commit")[-1].name[:17]
    table.call("create_savepoint", commit_time=saved)
    for n in range(2, 5):
        table.upsert(f"a sf {n} {n}")
    table.shows("*_*.clean")
    table.call("rollback_to_savepoint", instant_time=saved)
    table.shows("*_*.restore")


@recipe(cow={TYPE: "cow"}, mor={TYPE: "mor"})
def by_sql(table: Maker) -> None:
    """Spark SQL: create, insert, update, delete, merge; on MOR the merge writes partial rows."""
    kind, name = table.options[TYPE], f"t_{table.path.name}"
    table.hudi.sql(
        f"create table {name} (id string, ts bigint, fare double, note string, city string) "
        f"using hudi partitioned by (city) location '{table.path}' tblproperties "
        f"(type = '{kind}', primaryKey = 'id', orderingFields = 'ts', "
        "'hoodie.metadata.enable' = 'false')",
        f"insert into {name} values ('a', 1, 10, 'x', 'sf'), ('b', 1, 20, null, 'sf'), "
        "('c', 1, 30, 'z', 'la')",
        f"update {name} set fare = 11 where id = 'a'",
        f"merge into {name} as t using (select 'b' as id, 2L as ts, 22.0D as fare, 'sf' as city) "
        "as s on t.id = s.id when matched then update set ts = s.ts, fare = s.fare",
        f"delete from {name} where id = 'c'",
        f"drop table {name}",
    )


def _delta(table: Maker) -> str:
    return "deltacommit" if table.options.get(TYPE) == "MERGE_ON_READ" else "commit"
