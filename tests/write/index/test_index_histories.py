"""Indexes against a dict: random histories of writes, read by us and by the wheel."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.indexed import (
    BUCKETS,
    FILTERS,
    GLOBAL,
    INDEX,
    RECORD,
    STAYS,
    Row,
    arrow,
    assert_in_buckets,
    create,
    read_both,
    rows_in,
)
from support.record_indexed import INDEXED, check_index

pytestmark = pytest.mark.slow


@dataclass
class Model:
    """What the table should hold: by key and partition, or, by the global index, by key."""

    is_global: bool
    by_event: bool
    moves: bool = True
    rows: dict[Any, Row] = field(default_factory=dict)
    place: dict[Any, str] = field(default_factory=dict)

    def key(self, id_: str, partition: str) -> Any:
        return id_ if self.is_global else (id_, partition)

    def winners(self, given: list[Row]) -> list[Row]:
        found: dict[Any, Row] = {}
        for row in given:
            old = found.get(self.key(*row[:2]))
            if old is None or not self.by_event or row[2] >= old[2]:
                found[self.key(*row[:2])] = row
        return list(found.values())

    def upsert(self, given: list[Row]) -> None:
        for row in self.winners(given):
            key = self.key(*row[:2])
            old = self.rows.get(key)
            if old is None or not self.by_event or row[2] >= old[2]:
                if old is None or self.moves:
                    self.place[key] = row[1]
                self.rows[key] = row

    def delete(self, ids: list[str], partition: str | None) -> None:
        for row in list(self.rows.values()):
            key = self.key(*row[:2])
            is_there = self.is_global or partition is None or self.place[key] == partition
            if row[0] in ids and is_there:
                del self.rows[key]

    def overwrite(self, given: list[Row]) -> None:
        touched = {row[1] for row in given}
        for key in [key for key in self.rows if self.place[key] in touched]:
            del self.rows[key]
        self.upsert(given)


IDS = st.sampled_from([f"key-{n}" for n in range(6)])
PARTITIONS = st.sampled_from(["x", "y z"])
ROWS = st.lists(
    st.tuples(IDS, PARTITIONS, st.integers(0, 3), st.integers(0, 999)), min_size=1, max_size=6
)
STEPS = st.one_of(
    st.tuples(st.just("insert"), ROWS),
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("delete"), st.tuples(st.lists(IDS, min_size=1, max_size=3), PARTITIONS)),
    st.tuples(st.just("delete everywhere"), st.lists(IDS, min_size=1, max_size=2)),
    st.tuples(st.just("overwrite"), ROWS),
)


def apply(table: Any, model: Model, step: str, given: Any) -> None:
    match step:
        case "insert":  # of keys that are not there: an insert does not look for them
            fresh = [r for r in model.winners(given) if model.key(*r[:2]) not in model.rows]
            model.upsert(fresh)
            table.insert(arrow(fresh))
        case "upsert":
            model.upsert(given)
            table.upsert(arrow(given))
        case "delete":
            ids, partition = given
            model.delete(ids, partition)
            table.delete(pa.table({"id": ids, "p": [partition] * len(ids)}))
        case "delete everywhere":
            model.delete(given, None)
            table.delete(given)
        case "overwrite":
            # Where a key is one row of the table, an overwrite may make it two.
            fresh = [
                r
                for r in model.winners(given)
                if model.place.get(model.key(*r[:2]), r[1]) == r[1]
                or model.key(*r[:2]) not in model.rows
            ]
            model.overwrite(fresh)
            table.insert_overwrite(arrow(fresh))


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize(
    "options",
    [{INDEX: "BLOOM"}, FILTERS, BUCKETS, GLOBAL, STAYS, RECORD, {**GLOBAL, **INDEXED}],
    ids=["bloom", "filters", "bucket", "global", "stays", "record", "kept"],
)
@settings(max_examples=histories(4))
@given(steps=st.lists(STEPS, min_size=2, max_size=6))
def test_histories(
    options: dict[str, str], ordering: str | None, kind: str, steps: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = create(f"{folder}/t", kind, options, ordering)
        model = Model(
            options[INDEX] in ("GLOBAL_SIMPLE", "RECORD_INDEX"),
            ordering is not None,
            moves=options is not STAYS and options is not RECORD,
        )
        for step, given in steps:
            apply(table, model, step, given)
            assert rows_in(table.to_arrow()) == sorted(model.rows.values())
            if INDEXED.items() <= options.items():
                check_index(table)
        assert read_both(table) == sorted(model.rows.values())
        if options is BUCKETS:
            assert_in_buckets(table)


@pytest.mark.parametrize(
    "options",
    [{}, {INDEX: "BLOOM"}, GLOBAL, STAYS],
    ids=["simple", "bloom", "global", "stays"],
)
@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_key_that_was_deleted_here_and_lives_there(
    tmp_path: Path, options: dict[str, str], ordering: str | None
) -> None:
    """Inserted anew, it has two file groups; an update goes to the one where it lives."""
    table = create(
        tmp_path / "t", "mor", {**options, "hoodie.parquet.small.file.limit": "0"}, ordering
    )
    table.upsert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    table.delete(["a"])
    table.insert(arrow([("a", "x", 2, 2)]))
    table.upsert(arrow([("a", "x", 3, 3)]))
    assert read_both(table) == [("a", "x", 3, 3), ("b", "x", 1, 1)]
    table.delete(["a"])
    assert read_both(table) == [("b", "x", 1, 1)]
