"""Merging entries: against a dict that is folded entry by entry, by the table of rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo.format.metadata_table.column_stats import COLUMN_STATS_SCHEMA, ValueType, make_bounds
from hoodoo.format.metadata_table.files import LISTED_FILES, explode, gather
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.format.metadata_table.schema import Wrapper
from hoodoo.metadata_table.entries.merge import (
    EntryBatch,
    merge_column_stats,
    merge_file_lists,
    merge_newest,
)

pytestmark = pytest.mark.slow

KEYS = st.sampled_from(["a", "b", "c", "é", "\U0001d11e", "\uffff"])


def deleted(keys: set[str]) -> pa.Array | None:
    return pa.array(sorted(keys), pa.string()) if keys else None


# -- the newest wins --------------------------------------------------------------------------


def locations(entries: dict[str, int]) -> pa.Table:
    count = len(entries)
    columns = [
        pa.array(list(entries), pa.string()),
        pa.array(["p"] * count, pa.string()),
        pa.array([f"file-{number}" for number in entries.values()], pa.string()),
        pa.array(list(entries.values()), pa.int64()),
        pa.nulls(count, pa.int64()),
    ]
    return pa.table(columns, LOCATIONS)


@settings(max_examples=200)
@given(
    st.dictionaries(KEYS, st.integers(0, 9)),
    st.lists(st.tuples(st.sets(KEYS), st.dictionaries(KEYS, st.integers(0, 9))), max_size=5),
)
def test_the_newest_entry_of_a_key_wins_unless_it_is_deleted(base, steps) -> None:
    model = dict(base)
    batches = [EntryBatch(locations(base))]
    for gone, written in steps:
        for key in gone:
            model.pop(key, None)
        model.update(written)
        batches.append(EntryBatch(locations(written), deleted(gone)))
    merged = merge_newest(batches)
    assert merged.schema == LOCATIONS
    expected = sorted(model.items(), key=lambda item: item[0].encode())
    pairs = zip(merged["key"].to_pylist(), merged["instant_ms"].to_pylist(), strict=True)
    assert list(pairs) == expected


def test_steps_without_entries_only_delete() -> None:
    batches = [EntryBatch(locations({"a": 1, "b": 2})), EntryBatch(None, pa.array(["a", "z"]))]
    assert merge_newest(batches)["key"].to_pylist() == ["b"]
    assert merge_newest([EntryBatch(locations({})), *batches[1:]]).num_rows == 0


# -- files ------------------------------------------------------------------------------------

FILES = st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers(1, 9), max_size=3)


def lists(entries: dict[str, dict[str, int | None]]) -> pa.Table:
    rows = [
        (key, name, size or 0, size is None)
        for key, files in entries.items()
        for name, size in files.items()
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(LISTED_FILES)
    listed = pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, LISTED_FILES, strict=True)],
        LISTED_FILES,
    )
    return gather(listed, pa.array(list(entries), pa.string()))


def fold_files(old: dict[str, int | None], new: dict[str, int | None]) -> dict[str, int | None]:
    made = dict(old)
    for name, size in new.items():
        if size is None and made.get(name) is not None:
            del made[name]
        elif size is None:
            made[name] = None
        else:
            made[name] = max(size, made.get(name) or 0)
    return made


@settings(max_examples=200)
@given(
    st.dictionaries(KEYS, FILES, max_size=3),
    st.lists(st.tuples(st.sets(KEYS, max_size=1), st.dictionaries(KEYS, FILES, max_size=3)),
             max_size=6),
)  # fmt: skip
def test_files_merge_one_by_one(base, steps) -> None:
    model = dict(base)
    batches = [EntryBatch(lists(base))]
    for gone, written in steps:
        for key in gone:
            model.pop(key, None)
        for key, files in written.items():
            model[key] = fold_files(model[key], files) if key in model else dict(files)
        batches.append(EntryBatch(lists(written), deleted(gone)))
    merged = merge_file_lists(batches)
    assert merged["key"].to_pylist() == sorted(model)
    made: dict[str, dict[str, int | None]] = {key: {} for key in merged["key"].to_pylist()}
    for row in explode(merged).to_pylist():
        made[row["key"]][row["name"]] = None if row["is_deleted"] else row["size_bytes"]
    assert made == model


# -- statistics -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stats:
    low: Any
    high: Any
    kind: Wrapper
    count: int | None
    is_deleted: bool = False
    is_tight: bool = False


def bounds(values: list[Any], kinds: list[Wrapper]) -> pa.Array:
    codes = np.array(
        [Wrapper.NULL if v is None else k for v, k in zip(values, kinds, strict=True)], np.int8
    )
    types = {
        Wrapper.INT: pa.int32(), Wrapper.LONG: pa.int64(), Wrapper.DOUBLE: pa.float64(),
        Wrapper.STRING: pa.string(), Wrapper.BYTES: pa.binary(), Wrapper.FLOAT: pa.float32(),
    }  # fmt: skip
    inside = {
        kind: pa.array([v for v, code in zip(values, codes, strict=True) if code == kind], type_)
        for kind, type_ in types.items()
    }
    return make_bounds(codes, inside)


def stats(entries: dict[str, Stats], value_type: ValueType | None = None) -> pa.Table:
    rows = list(entries.values())
    count = len(rows)
    kinds = [row.kind for row in rows]
    counts = pa.array([row.count for row in rows], pa.int64())
    columns = {
        "key": pa.array(list(entries), pa.string()),
        "kind": pa.array([3] * count, pa.int32()),
        "file_name": pa.array(["f"] * count, pa.string()),
        "column_name": pa.array(["c"] * count, pa.string()),
        "min_value": bounds([row.low for row in rows], kinds),
        "max_value": bounds([row.high for row in rows], kinds),
        "value_count": counts,
        "null_count": pa.nulls(count, pa.int64()),
        "size_bytes": counts,
        "uncompressed_bytes": counts,
        "is_deleted": pa.array([row.is_deleted for row in rows], pa.bool_()),
        "is_tight_bound": pa.array([row.is_tight for row in rows], pa.bool_()),
        "value_type": pa.array([value_type] * count, pa.int32()),
        "value_type_info": pa.nulls(count, pa.string()),
    }
    return pa.table(columns, COLUMN_STATS_SCHEMA)


def fold_stats(old: Stats | None, new: Stats) -> Stats:
    if old is None or old.is_deleted or new.is_deleted or new.is_tight:
        return new
    lows = [one.low for one in (old, new) if one.low is not None]
    highs = [one.high for one in (old, new) if one.high is not None]
    counts = [one.count for one in (old, new) if one.count is not None]
    return replace(
        new,
        low=min(lows, default=None),
        high=max(highs, default=None),
        count=sum(counts) if counts else None,
    )


def entries_of(values: st.SearchStrategy[Any], kind: Wrapper) -> st.SearchStrategy[Stats]:
    return st.builds(
        Stats,
        st.none() | values,
        st.none() | values,
        st.just(kind),
        st.none() | st.integers(0, 9),
        st.sampled_from([False] * 4 + [True]),
        st.sampled_from([False] * 4 + [True]),
    )


STRATEGIES = {
    Wrapper.INT: st.integers(-99, 99),
    Wrapper.DOUBLE: st.floats(-9, 9),
    Wrapper.STRING: st.text("aé\U0001d11e\uffff", max_size=3),
    Wrapper.BYTES: st.binary(max_size=3),
}


@settings(max_examples=200)
@given(st.data())
def test_statistics_widen_until_something_tight_or_deleted_comes(data) -> None:
    # A column has one type, and a key has one column.
    kind_of = {key: data.draw(st.sampled_from(list(STRATEGIES))) for key in "abc"}
    model: dict[str, Stats] = {}
    batches = [EntryBatch(stats({}))]
    for _ in range(data.draw(st.integers(0, 5))):
        gone = data.draw(st.sets(st.sampled_from("abc"), max_size=1))
        keys = data.draw(st.sets(st.sampled_from("abc")))
        new = {
            key: data.draw(entries_of(STRATEGIES[kind_of[key]], kind_of[key]))
            for key in sorted(keys)
        }
        for key in gone:
            model.pop(key, None)
        model.update({key: fold_stats(model.get(key), one) for key, one in new.items()})
        batches.append(EntryBatch(stats(new), deleted(gone)))
    merged = merge_column_stats(batches)
    merged.validate(full=True)
    made = {
        row["key"]: (
            row["min_value"] and row["min_value"]["value"],
            row["max_value"] and row["max_value"]["value"],
            row["value_count"],
            row["is_deleted"],
            row["is_tight_bound"],
        )
        for row in merged.to_pylist()
    }
    expected = {
        key: (one.low, one.high, one.count, one.is_deleted, one.is_tight)
        for key, one in model.items()
    }
    assert made == expected
    assert merged["key"].to_pylist() == sorted(model)
    assert merged["null_count"].null_count == len(merged)


def merge_two(first: Stats, second: Stats, value_type: ValueType | None = None) -> list[Any]:
    tables = [stats({"k": one}, value_type) for one in (first, second)]
    rows = merge_column_stats([EntryBatch(table) for table in tables]).to_pylist()
    return [(row["min_value"]["value"], row["max_value"]["value"]) for row in rows]


def test_numbers_compare_after_the_type_of_a_column_grew() -> None:
    ints = Stats(-5, 7, Wrapper.INT, 1)
    assert merge_two(ints, Stats(-3, 2**40, Wrapper.LONG, 1)) == [(-5, 2**40)]
    assert merge_two(Stats(1, 2**40, Wrapper.LONG, 1), ints) == [(-5, 2**40)]
    assert merge_two(ints, Stats(-6.5, 1.5, Wrapper.DOUBLE, 1)) == [(-6.5, 7.0)]
    assert merge_two(Stats(0.5, 1.5, Wrapper.FLOAT, 1), ints) == [(-5.0, 7.0)]


def test_an_entry_is_dropped_where_types_do_not_compare() -> None:
    assert merge_two(Stats(1, 2, Wrapper.INT, 1), Stats("a", "b", Wrapper.STRING, 1)) == []


def test_decimals_compare_as_numbers_not_as_bytes() -> None:
    low = Stats(b"\xff", b"\x7f", Wrapper.BYTES, 1)  # -1 and 127
    high = Stats(b"\x02", b"\x01\x00", Wrapper.BYTES, 1)  # 2 and 256
    assert merge_two(low, high, ValueType.DECIMAL) == [(b"\xff", b"\x01\x00")]
    assert merge_two(low, high) == [(b"\x02", b"\x7f")]


def test_the_type_of_an_entry_without_bounds_does_not_count() -> None:
    known = stats({"k": Stats(1, 2, Wrapper.INT, 1)}, ValueType.INT)
    empty = stats({"k": Stats(None, None, Wrapper.INT, 3)}, ValueType.NULL)
    (row,) = merge_column_stats([EntryBatch(known), EntryBatch(empty)]).to_pylist()
    assert (row["value_type"], row["value_count"]) == (ValueType.INT, 4)
