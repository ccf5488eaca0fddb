"""Carries a history out on a real table, and compares every reader with the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from compat.history_model import Key, Model, update_note
from compat.history_steps import Row, Setting, Step
from compat.peer_client import Peer, PeerError
from compat.peer_tables import CLUSTER, COMMIT_TIME, COMPACT, LOG_FORMAT, OPERATION, ORDERING, TYPE
from compat.same_rows import assert_same_rows
from compat.shared_table import ALONE
from pyspark.sql import SparkSession
from support.carriers import CARRIERS
from support.wheel import wheel_rows
from support.zones import time_zone

import hoodoo

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "city": pa.string(),
        "ts": pa.int64(),
        "fare": pa.float64(),
        "note": pa.string(),
    }
)
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
SERVICES: Mapping[str, Mapping[str, str]] = {
    "": {},
    "compact": COMPACT,
    "plan compaction": {**COMPACT, "hoodie.compact.inline": "false"}
    | {"hoodie.compact.schedule.inline": "true"},
    "cluster": CLUSTER,
    "clean": {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"},
    "clean versions": {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    },
    "archive": {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    },
}
NO_SERVICES = {
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.clustering.inline": "false",
}
OVERWRITE = {"hoodie.datasource.overwrite.mode": "dynamic"}
DROP = "hoodie.datasource.write.partitions.to.delete"
REFUSAL = "HoodieDeletePartitionPendingTableServiceException"
# What a session of Hudi's SQL must not be told: it knows this from the table.
OF_THE_TABLE = ("hoodie.datasource.", "hoodie.table.", "hoodie.write.record.merge")


@dataclass
class Run:
    """One table and its writers; `peers` are Apache Hudis by the time zones of their JVMs."""

    setting: Setting
    peers: Mapping[str, Peer]
    spark: SparkSession
    place: Path
    model: Model = field(init=False)
    named_in: set[str] = field(default_factory=set)
    patched: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.model = Model(self.setting.by_event)

    def make(self) -> None:
        """Let the table be one of ours; otherwise Hudi's first write makes it."""
        if self.setting.maker == "hoodoo":
            with self.at_home():
                hoodoo.create_table(
                    str(self.place),
                    schema=SCHEMA,
                    name="trips",
                    record_key="id",
                    partition_by="city",
                    ordering="ts" if self.setting.by_event else None,
                    table_type=self.setting.kind,
                    options=self.options(),
                )

    def at_home(self) -> AbstractContextManager[None]:
        """This process in the zone of a table that is in local time; anywhere otherwise."""
        return time_zone(self.setting.zone) if self.setting.maker == "hudi" else nullcontext()

    def options(self) -> dict[str, str]:
        """What both sides must know about the table and how to write it."""
        setting = self.setting
        found = {"hoodie.index.type": setting.index, LOG_FORMAT: setting.log_format}
        if setting.index == "BUCKET":
            found["hoodie.bucket.index.num.buckets"] = "3"
        if not setting.small_files:
            found["hoodie.parquet.small.file.limit"] = "0"
        return found

    def take(self, step: Step) -> None:
        """One step, on the table and in the model; all readers are asked if it says so."""
        step = self.spare_hudi(step)
        with self.at_home():
            if self.write(step):
                self.model.apply(step)
            if step.is_checked or self.model.unsure:
                self.check(step.zone)

    def write(self, step: Step) -> bool:
        """Whether the step happened: it may have no rows, or be one that Hudi refuses."""
        if not step.rows:
            return False
        try:
            _WRITERS[step.writer](self, step)
        except PeerError as error:
            if REFUSAL not in str(error):
                raise
            self.roll_back_refused_write()
            return False
        return True

    def roll_back_refused_write(self) -> None:
        """Take away what Hudi left pending: as a single writer it cannot, once we have written."""
        table = hoodoo.open_table(str(self.place))
        for one in table.timeline():
            if one.action == "replacecommit" and not one.completion_time:
                table.rollback(one.requested_time, force=True)

    def spare_hudi(self, step: Step) -> Step:
        """The step without rows that Hudi 1.2.0 spoils on a MOR table, see docs/compatibility.md.

        A merge of some columns writes partial rows for keys that are not there, too; and a late
        row fills the columns that an earlier partial row lacks.
        """
        if self.setting.kind == "cow":
            return step
        rows = step.rows
        if step.operation == "merge some columns":
            rows = tuple(row for row in rows if (row.city, row.id) in self.model.rows)
            self.patched |= {(row.city, row.id) for row in rows}
        elif self.setting.by_event:
            rows = tuple(row for row in rows if not self.is_late_after_patch(row))
        return step._replace(rows=rows)

    def is_late_after_patch(self, row: Row) -> bool:
        """Whether the row is older than one that a merge wrote in part."""
        past = self.model.past.get((row.city, row.id), [])
        return (row.city, row.id) in self.patched and any(one.ts > row.ts for one in past)

    def check(self, zone: str) -> None:
        """All readers read the rows of the model; hoodoo and Hudi the same in all columns."""
        table = hoodoo.open_table(str(self.place))
        local, hudi = table.to_arrow(), self.peers[zone].read(self.place)
        assert_same_rows(local, hudi)
        assert_same_rows(table.read(self.spark).toArrow(), hudi)
        self.model.settle(rows_by_key(local.to_pylist()))
        expected = sorted(self.model.rows.values(), key=repr)
        assert_rows("hoodoo and Apache Hudi", local.to_pylist(), expected)
        assert_rows("the hudi wheel", wheel_rows(self.place), expected)

    # -- hoodoo ---------------------------------------------------------------------------------

    def write_locally(self, step: Step) -> None:
        self._write_ours(step, self.options(), arrow)

    def write_by_spark(self, step: Step) -> None:
        def frame(rows: Iterable[Row]) -> Any:
            return self.spark.createDataFrame(arrow(rows))

        self._write_ours(step, {**self.options(), **CARRIERS[step.carrier]}, frame)

    def _write_ours(
        self, step: Step, options: dict[str, str], given: Callable[[Iterable[Row]], Any]
    ) -> None:
        table = hoodoo.open_table(str(self.place), options)
        match step.operation:
            case "delete":
                table.delete(given(step.rows).select(["id", "city"]))
            case "delete not newer":
                table.delete(given(step.rows))
            case "overwrite":
                table.insert_overwrite(given(step.rows))
            case "drop":
                path = f"city={step.rows[0].city}"
                if path in {group.partition for group in table.files().groups}:
                    table.delete_partitions([path])
            case operation:
                getattr(table, operation)(given(step.rows))

    # -- Apache Hudi ----------------------------------------------------------------------------

    def their_options(self, step: Step) -> dict[str, str]:
        found = {**ALONE, **NO_SERVICES, **self.options(), TYPE: KINDS[self.setting.kind]}
        if not self.setting.by_event:
            del found[ORDERING]
            found |= {key: value for key, value in COMMIT_TIME.items() if value}
        return found | dict(SERVICES[step.service])

    def write_frame(self, step: Step) -> None:
        named = {"overwrite": "insert_overwrite", "drop": "delete_partition"}
        options = self.their_options(step)
        options[OPERATION] = named.get(step.operation, step.operation)
        if step.operation == "drop":
            options[DROP] = f"city={step.rows[0].city}"
        if step.operation == "overwrite":
            options |= OVERWRITE
        self.peers[step.zone].write(self.place, arrow(step.rows), options)

    def run_sql(self, step: Step) -> None:
        peer, name = self.peers[step.zone], f"history_{self.setting.seed}"
        options = self.their_options(step)
        told = {k: v for k, v in options.items() if not k.startswith(OF_THE_TABLE)}
        statements = [f"set {key}={value}" for key, value in told.items()]
        if step.zone not in self.named_in:
            statements += [f"drop table if exists {name}"]
            statements += [f"create table {name} using hudi location '{self.place}'"]
            self.named_in.add(step.zone)
        peer.sql(*statements, f"refresh table {name}", statement(name, step))


_WRITERS: dict[str, Callable[[Run, Step], None]] = {
    "local": Run.write_locally,
    "spark": Run.write_by_spark,
    "frame": Run.write_frame,
    "sql": Run.run_sql,
}


def statement(table: str, step: Step) -> str:
    """The step in Hudi's SQL."""
    keys = " or ".join(f"(id = '{row.id}' and city = '{row.city}')" for row in step.rows)
    merge = f"merge into {table} t using ({select(step.rows)}) s on t.id = s.id and t.city = s.city"
    update, insert = "when matched then update set *", "when not matched then insert *"
    match step.operation:
        case "merge":
            return f"{merge} {update} {insert}"
        case "merge some columns":
            return f"{merge} when matched then update set fare = s.fare, ts = s.ts"
        case (
            "merge and delete"
        ):  # Hudi tries updates before deletes, so conditions exclude each other
            update = "when matched and s.fare >= 0 then update set *"
            insert = "when not matched and s.fare >= 0 then insert *"
            return f"{merge} when matched and s.fare < 0 then delete {update} {insert}"
        case "update":
            return f"update {table} set note = '{update_note(step.rows)}' where {keys}"
        case "delete":
            return f"delete from {table} where {keys}"
        case operation:
            raise AssertionError(f"no statement for {operation}")


def select(rows: Iterable[Row]) -> str:
    """Rows as a query."""
    return " union all ".join(
        f"select '{row.id}' as id, '{row.city}' as city, {row.ts}L as ts, {row.fare}D as fare, "
        + ("cast(null as string)" if row.note is None else f"'{row.note}'")
        + " as note"
        for row in rows
    )


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([row._asdict() for row in rows], SCHEMA)


def rows_by_key(read: Iterable[Mapping[str, Any]]) -> dict[Key, Row]:
    """What was read, by city and id."""
    rows = [Row(**{name: row[name] for name in SCHEMA.names}) for row in read]
    return {(row.city, row.id): row for row in rows}


def assert_rows(reader: str, read: Iterable[Mapping[str, Any]], expected: list[Row]) -> None:
    """Fails with the rows that a reader should not have read, and those it should have."""
    found = sorted((Row(**{name: row[name] for name in SCHEMA.names}) for row in read), key=repr)
    if found != expected:
        lines = [f"{reader}: {len(found)} rows, and {len(expected)} in the model"]
        lines += [f"read, not in the model: {row}" for row in found if row not in expected]
        lines += [f"in the model, not read: {row}" for row in expected if row not in found]
        twice = [row for row in set(found) if found.count(row) > 1]
        lines += [f"read more than once: {row}" for row in twice]
        raise AssertionError("\n".join(lines))
