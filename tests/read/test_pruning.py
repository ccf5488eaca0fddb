"""Filters keep partitions from being listed, files from being opened, row groups unread."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType
from hoodoo.read.scan import scan
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef
from hoodoo.write import operations

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.date32()), ("n", pa.int64()), ("s", pa.string())]
)
ENGINE = LocalEngine(threads=1)
DAYS = pa.array(["2026-01-01", "2026-01-02", "2026-01-03"]).cast(pa.date32())


NUMBERS = itertools.count()


def table(kind: str = "cow") -> tuple[TableRef, TracedStorage]:
    """Three partitions of 300 rows, in row groups of about 100; `n` grows within each."""
    name = f"pruning-{next(NUMBERS)}"
    storage = TracedStorage(open_storage(f"memory://{name}", {}))
    ref = create_table(
        f"memory://{name}",
        schema=SCHEMA,
        record_key="id",
        partition_by="day",
        table_type=kind,
        options={"hoodie.parquet.block.size": 4096},
        env=Env(storage),
    )
    numbers = list(range(900))
    rows = pa.table(
        [
            pa.array(numbers),
            DAYS.take(pa.array([n // 300 for n in numbers])),
            pa.array(numbers),
            pa.array([f"text {n:04}" for n in numbers]),
        ],
        schema=SCHEMA,
    )
    operations.write(ref, OperationType.INSERT, rows, ENGINE)
    storage.clear()
    return ref, storage


def opened_partitions(storage: TracedStorage) -> list[str]:
    return [op.path.partition("/")[0] for op in storage.operations if op.verb == "open_read"]


@pytest.mark.parametrize(
    ("filter", "days"),
    [
        ("day = date '2026-01-02'", ["2026-01-02"]),
        ("day = '2026-01-02'", ["2026-01-02"]),
        ("day > date '2026-01-01' and n >= 0", ["2026-01-02", "2026-01-03"]),
        ("day in (date '2026-01-03', date '2027-01-01')", ["2026-01-03"]),
        ("not day < date '2026-01-03'", ["2026-01-03"]),
        ("day is null", []),
    ],
)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_partitions_that_cannot_match_are_not_opened(
    filter: str, days: list[str], kind: str
) -> None:
    ref, storage = table(kind)
    found = scan(ref, ENGINE, filter=filter)
    assert found.num_rows == 300 * len(days)
    assert opened_partitions(storage) == [f"day={day}" for day in days]
    listed = [op.path for op in storage.operations if op.verb == "list" and "day=" in op.path]
    assert listed == [f"day={day}" for day in days]


def test_row_groups_that_cannot_match_are_pruned() -> None:
    ref, _ = table()
    from hoodoo.format.parquet.base_file import open_parquet, row_groups_that_may_match
    from hoodoo.model.predicate import parse_filter
    from hoodoo.read.snapshot import take_snapshot
    from hoodoo.rows.filter import bind

    base = take_snapshot(ref).slices()[0].base
    assert base is not None
    with ref.env.storage.open_read(base.path) as source:
        file = open_parquet(source)
        assert file.metadata.num_row_groups >= 3
        chosen = bind(parse_filter("n = 0"), SCHEMA)
        assert row_groups_that_may_match(file, chosen) == [0]
        chosen = bind(parse_filter("s > 'zzz'"), SCHEMA)
        assert row_groups_that_may_match(file, chosen) == []


@pytest.mark.parametrize("filter", ["n between 250 and 349", "s like 'text 03%'", "n = 5000"])
def test_rows_are_right_after_pruning(filter: str) -> None:
    ref, _ = table()
    everything = scan(ref, ENGINE)
    predicate = {
        "n between 250 and 349": lambda row: 250 <= row["n"] <= 349,
        "s like 'text 03%'": lambda row: row["s"].startswith("text 03"),
        "n = 5000": lambda row: False,
    }[filter]
    expected = sorted(row["id"] for row in everything.to_pylist() if predicate(row))
    assert sorted(scan(ref, ENGINE, filter=filter)["id"].to_pylist()) == expected


def test_only_the_columns_asked_for_are_read() -> None:
    ref, _ = table()
    assert scan(ref, ENGINE, columns=["n"], filter="s = 'text 0007'").to_pylist() == [{"n": 7}]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_of_files_that_have_none_of_the_columns_count(kind: str) -> None:
    ref, _ = table(kind)
    added = SCHEMA.append(pa.field("note", pa.string()))
    operations.write(
        ref,
        OperationType.UPSERT,
        pa.table([[0], DAYS.slice(0, 1), [0], ["x"], ["hi"]], schema=added),
        ENGINE,
    )
    notes = scan(ref, ENGINE, columns=["note"])["note"].to_pylist()
    assert (len(notes), notes.count("hi"), notes.count(None)) == (900, 1, 899)
    assert scan(ref, ENGINE, columns=["note"], filter="note is null").num_rows == 899
    with pytest.raises(InputError):
        scan(ref, ENGINE, columns=[])
