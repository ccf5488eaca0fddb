"""Merging against a literal, record-by-record model of the format's rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import ConfigError
from hoodoo.model.merge import DeleteFlag, MergeMode, MergeRule
from hoodoo.rows import arrays, merge

EVENT = MergeRule(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRule(MergeMode.COMMIT_TIME_ORDERING)
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True)
class Record:
    """A row, or a delete; `ts` None in a delete means that it wins at once."""

    key: str
    ts: int | None
    v: int
    delete: bool = False


def newer_wins(old: Record, new: Record, *, by_event: bool) -> bool:
    if not by_event:
        return True
    if new.delete and new.ts is None:
        return True
    if old.delete and old.ts is None:
        return True
    assert old.ts is not None
    assert new.ts is not None
    return new.ts >= old.ts


def model(base: list[Record], logs: list[Record], *, by_event: bool) -> set[Record]:
    merged: dict[str, Record] = {}
    for record in logs:
        old = merged.get(record.key)
        if old is None or newer_wins(old, record, by_event=by_event):
            merged[record.key] = record
    result = {record.key: record for record in base}
    for key, record in merged.items():
        if key not in result or newer_wins(result[key], record, by_event=by_event):
            result[key] = record
    return {record for record in result.values() if not record.delete}


KEYS = st.sampled_from("abcd")
ROWS = st.builds(Record, KEYS, st.integers(0, 4), st.integers(0, 99))
DELETES = st.builds(Record, KEYS, st.none() | st.integers(0, 4), st.just(0), st.just(True))
BASES = st.lists(ROWS, unique_by=lambda record: record.key, max_size=4)


def table(records: list[Record]) -> pa.Table:
    return pa.table(
        [
            pa.array([r.key for r in records], pa.string()),
            pa.array([r.ts for r in records], pa.int64()),
            pa.array([r.v for r in records], pa.int64()),
        ],
        schema=SCHEMA,
    )


def changes(records: list[Record], rule: MergeRule) -> merge.Changes:
    rows = table(records)
    if records and records[0].delete:
        return merge.deletes(rows["id"], SCHEMA, rule, [arrays.one_array(rows["ts"])])
    return merge.upserts(rows, rows["id"], rule)


def run(base: list[Record], logs: list[list[Record]], rule: MergeRule) -> set[Record]:
    merger = merge.Merger(merge.collapse([changes(block, rule) for block in logs]))
    rows = table(base)
    kept = [merger.keep(rows.slice(i, 2), rows.slice(i, 2)["id"], rule) for i in (0, 2)]
    result = pa.concat_tables([*kept, merger.rest()])
    found = [Record(row["id"], row["ts"], row["v"]) for row in result.to_pylist()]
    assert len({record.key for record in found}) == len(found)
    counts = merger.counts()
    assert len(found) == len(base) - counts["deleted"] + counts["inserted"]
    return set(found)


BLOCKS = st.lists(
    st.lists(ROWS, min_size=1, max_size=5) | st.lists(DELETES, min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


@given(BASES, BLOCKS)
def test_event_time_ordering(base: list[Record], blocks: list[list[Record]]) -> None:
    logs = [record for block in blocks for record in block]
    assert run(base, blocks, EVENT) == model(base, logs, by_event=True)


@given(BASES, BLOCKS)
def test_commit_time_ordering(base: list[Record], blocks: list[list[Record]]) -> None:
    logs = [record for block in blocks for record in block]
    assert run(base, blocks, COMMIT) == model(base, logs, by_event=False)


def test_an_old_base_row_comes_back_when_a_late_row_follows_a_delete() -> None:
    # The format's own rule (logs are merged among themselves first), known and kept.
    base = [Record("a", 1, 10)]
    blocks = [[Record("a", None, 0, True)], [Record("a", 0, 20)]]
    assert run(base, blocks, EVENT) == {Record("a", 1, 10)}


def test_rows_flagged_as_deleted_delete() -> None:
    rows = pa.table({"id": ["a", "b"], "_hoodie_is_deleted": [True, None]})
    found = merge.Merger(merge.collapse([merge.upserts(rows, rows["id"], COMMIT)]))
    assert found.rest()["id"].to_pylist() == ["b"]
    rows = pa.table({"id": ["a", "b"], "_hoodie_operation": ["D", "I"]})
    found = merge.Merger(merge.collapse([merge.upserts(rows, rows["id"], COMMIT)]))
    assert found.rest()["id"].to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("values", "text"),
    [(["D", "d", None, "I"], "D"), ([1, 10, None, 0], "1"), ([True, False, None, False], "true")],
)
def test_rows_delete_whose_column_has_the_text_of_the_flag(values: list[Any], text: str) -> None:
    rule = replace(COMMIT, delete_flag=DeleteFlag("op.kind", text))
    rows = pa.table({"id": ["a", "b", "c", "d"], "op": [{"kind": value} for value in values]})
    assert merge.upserts(rows, rows["id"], rule).is_delete.tolist() == [True, False, False, False]
    without = rows.select(["id"])
    assert not merge.upserts(without, rows["id"], rule).is_delete.any()


def test_a_flag_of_a_type_that_has_several_spellings_is_refused() -> None:
    rule = replace(COMMIT, delete_flag=DeleteFlag("op", "1.0"))
    rows = pa.table({"id": ["a"], "op": [1.0]})
    with pytest.raises(ConfigError, match=r"hoodie.payload.delete.field='op'.*double"):
        merge.upserts(rows, rows["id"], rule)


def test_two_ordering_fields_compare_in_turn() -> None:
    rule = MergeRule(MergeMode.EVENT_TIME_ORDERING, ("ts", "v"))
    rows = table([Record("a", 1, 5), Record("a", 1, 4), Record("a", 0, 9)])
    winners = merge.collapse([merge.upserts(rows, rows["id"], rule)])
    assert winners.rows.to_pylist() == [{"id": "a", "ts": 1, "v": 5}]


def test_ranks_put_nulls_first_and_ties_together() -> None:
    ranks = arrays.dense_ranks([pa.array([3, None, 1, 3])])
    assert ranks.tolist() == [2, 0, 1, 2]


@given(st.lists(st.tuples(*[st.none() | st.integers(0, 2)] * 4), min_size=1, max_size=8))
def test_rows_compare_by_columns_in_turn_with_nulls_smallest(
    pairs: list[tuple[int | None, ...]],
) -> None:
    columns = [pa.array(list(column), pa.int64()) for column in zip(*pairs, strict=True)]

    def key(values: tuple[int | None, ...]) -> list[int]:
        return [-1 if value is None else value for value in values]

    expected = [key(pair[:2]) > key(pair[2:]) for pair in pairs]
    assert arrays.are_greater(columns[:2], columns[2:]).tolist() == expected


KINDS = {
    "texts": pa.string(),
    "numbers": pa.int64(),
    "lists": pa.list_(pa.int64()),
    "structs": pa.struct([("a", pa.int64())]),
    "dictionaries": pa.dictionary(pa.int32(), pa.string()),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_values_are_put_where_they_belong(kind: str, data: st.DataObject) -> None:
    make: dict[str, Any] = {"lists": lambda n: [n], "structs": lambda n: {"a": n}, "numbers": int}
    one = make.get(kind, lambda n: f"t{n}")
    old = data.draw(st.lists(st.none() | st.integers(0, 9).map(one), min_size=1, max_size=600))
    most = st.integers(0, len(old) - 1)
    positions = sorted(data.draw(st.sets(most, max_size=data.draw(st.sampled_from([1, 20])))))
    new = [None if n % 4 == 3 else one(n + 5) for n, _ in enumerate(positions)]
    type_ = KINDS[kind]
    plain = type_.value_type if kind == "dictionaries" else type_
    cut = data.draw(st.integers(0, len(old)))
    column = pa.chunked_array([pa.array(old[:cut], type_), pa.array(old[cut:], type_)])
    expected = list(old)
    for position, value in zip(positions, new, strict=True):
        expected[position] = value
    at = np.array(positions, np.int64)
    assert arrays.put(column, at, pa.array(new, plain)).to_pylist() == expected
