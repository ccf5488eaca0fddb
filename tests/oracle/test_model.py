"""Random histories of writes against a dict: our reads, the wheel's, time travel, changes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.read.snapshot import take_snapshot

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
Key = tuple[int, str]
Row = tuple[int, int]  # ts, v

KEYS = st.tuples(st.integers(0, 5), st.sampled_from(["x", "y z"]))
ROWS = st.tuples(KEYS, st.integers(0, 3), st.integers(0, 999))
STEPS = st.one_of(
    st.tuples(st.just("insert"), st.lists(ROWS, max_size=6)),
    st.tuples(st.just("upsert"), st.lists(ROWS, max_size=6)),
    st.tuples(st.just("upsert"), st.lists(ROWS, max_size=6)),
    st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=4)),
    st.tuples(st.just("delete_older"), st.lists(ROWS, min_size=1, max_size=3)),
    st.tuples(st.just("delete_ids"), st.lists(st.integers(0, 6), min_size=1, max_size=2)),
    st.tuples(st.just("overwrite"), st.lists(ROWS, min_size=1, max_size=3)),
    st.tuples(st.just("drop"), st.sampled_from(["x", "y z"])),
)


@dataclass
class Model:
    """What the table should hold, and which commit wrote each row."""

    by_event: bool
    rows: dict[Key, Row] = field(default_factory=dict)
    written_by: dict[Key, int] = field(default_factory=dict)
    step: int = 0

    def put(self, key: Key, row: Row) -> None:
        old = self.rows.get(key)
        if old is None or not self.by_event or row[0] >= old[0]:
            self.rows[key] = row
            self.written_by[key] = self.step

    def remove(self, key: Key) -> None:
        self.rows.pop(key, None)
        self.written_by.pop(key, None)

    def winners(self, given: list[tuple[Key, int, int]]) -> dict[Key, Row]:
        found: dict[Key, Row] = {}
        for key, ts, v in given:
            if key not in found or not self.by_event or ts >= found[key][0]:
                found[key] = (ts, v)
        return found


def arrow(rows: dict[Key, Row]) -> pa.Table:
    listed = [{"id": k[0], "p": k[1], "ts": r[0], "v": r[1]} for k, r in rows.items()]
    return pa.Table.from_pylist(listed, SCHEMA)


def listed(given: list[tuple[Key, int, int]]) -> pa.Table:
    rows = [{"id": k[0], "p": k[1], "ts": ts, "v": v} for k, ts, v in given]
    return pa.Table.from_pylist(rows, SCHEMA)


def apply(table: hoodoo.Table, model: Model, step: str, given: Any) -> Any:
    """Do one step on both; None if it makes no sense here."""
    if step == "insert":  # of new keys only: an insert does not look for them
        fresh = {k: r for k, r in model.winners(given).items() if k not in model.rows}
        for key, row in fresh.items():
            model.put(key, row)
        return table.insert(arrow(fresh))
    if step == "upsert":
        for key, row in model.winners(given).items():
            model.put(key, row)
        return table.upsert(listed(given))
    if step == "delete":
        for key in given:
            model.remove(key)
        rows = [{"id": i, "p": p} for i, p in given]
        return table.delete(pa.Table.from_pylist(rows, SCHEMA.remove(3).remove(2)))
    if step == "delete_older":
        for key, row in model.winners(given).items():
            old = model.rows.get(key)
            if old is not None and (not model.by_event or row[0] >= old[0]):
                model.remove(key)
        return table.delete(listed(given))
    if step == "delete_ids":
        for key in [key for key in model.rows if key[0] in given]:
            model.remove(key)
        return table.delete(given)
    if step == "overwrite":
        touched = {key[1] for key, _, _ in given}
        for key in [key for key in model.rows if key[1] in touched]:
            model.remove(key)
        fresh = model.winners(given)
        for key, row in fresh.items():
            model.put(key, row)
        return table.insert_overwrite(arrow(fresh))
    live = {s.group.partition for s in take_snapshot(table._ref).slices()}
    if f"p={given}" not in live:
        return None
    for key in [key for key in model.rows if key[1] == given]:
        model.remove(key)
    return table.delete_partitions([f"p={given}"])


def data(table: pa.Table) -> list[dict[str, Any]]:
    return rows_of(table.select(SCHEMA.names))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("by_event", [True, False])
@settings(max_examples=histories(8))
@given(
    steps=st.lists(STEPS, min_size=2, max_size=6), log_format=st.sampled_from(["parquet", "avro"])
)
def test_histories(
    kind: str, by_event: bool, steps: list[tuple[str, Any]], log_format: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = hoodoo.create_table(
            f"{folder}/t",
            schema=SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="ts" if by_event else None,
            table_type=kind,
            options={"hoodie.logfile.data.block.format": log_format},
        )
        model = Model(by_event)
        past: list[tuple[str, list[dict[str, Any]]]] = []
        for step, given in steps:
            model.step += 1
            result = apply(table, model, step, given)
            if result is None:
                model.step -= 1
                continue
            expected = rows_of(arrow(model.rows))
            ours = table.to_arrow()
            assert data(ours) == expected, (step, given)
            assert rows_of(ours) == wheel_rows(table.uri), (step, given)
            past.append((result.instant, expected))
        for instant, expected in past:
            assert data(table.to_arrow(as_of=instant)) == expected
        for number, (instant, _) in enumerate(past, 1):
            changed = {k: r for k, r in model.rows.items() if model.written_by[k] > number}
            assert data(table.changes(since=instant)) == rows_of(arrow(changed)), number
