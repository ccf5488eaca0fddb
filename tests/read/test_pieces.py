"""Slices read piece by piece: small pieces, the same rows, nothing read for nothing."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodoo.model.commit import OperationType
from hoodoo.read.base_files import SliceReadTask, open_base
from hoodoo.read.scan import read_slice, read_slice_pieces, select_slices, slice_reads
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef
from hoodoo.write import operations

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
ENGINE = LocalEngine(threads=1)
COUNT = 100_000
NUMBERS = itertools.count()


def rows(ids: range, ts: int, n: int = 0) -> pa.Table:
    numbers = pa.array(ids, pa.int64())
    texts = pc.binary_join_element_wise("text ", numbers.cast(pa.string()), "")
    stamps = pa.repeat(pa.scalar(ts, pa.int64()), len(ids))
    return pa.table([numbers, stamps, pc.add(numbers, n), texts], schema=SCHEMA)


@cache
def table(kind: str, ordering: str | None = None) -> TableRef:
    """Ids in order, in several row groups; `n` is `id`, or a million more where it was changed."""
    uri = f"memory://pieces-{next(NUMBERS)}"
    ref = create_table(
        uri,
        schema=SCHEMA,
        record_key="id",
        ordering=ordering,
        table_type=kind,
        options={"hoodie.parquet.block.size": 4 * 1024 * 1024},
        env=Env(open_storage(uri, {})),
    )
    operations.write(ref, OperationType.INSERT, rows(range(COUNT), 5), ENGINE)
    if kind == "mor":
        operations.write(ref, OperationType.UPSERT, rows(range(0, COUNT, 11), 6, 1_000_000), ENGINE)
        operations.write(
            ref, OperationType.UPSERT, rows(range(5, COUNT, 1013), 1, 2_000_000), ENGINE
        )
        operations.write(ref, OperationType.DELETE, pa.table({"id": range(3, COUNT, 97)}), ENGINE)
    return ref


@cache
def everything(kind: str) -> list[dict[str, Any]]:
    """All rows as the whole slice has them."""
    (read,) = reads(table(kind, "ts"), columns=["id", "n", "s"])
    return list(read_slice(read).to_pylist())


def reads(ref: TableRef, **asked: Any) -> list[SliceReadTask]:
    chosen = select_slices(ref, **asked)
    return slice_reads(chosen.snapshot, chosen.rule, chosen.slices)


def value(key: int, ordering: str | None) -> int | None:
    if key % 97 == 3:
        return None
    if key % 1013 == 5 and ordering is None:
        return key + 2_000_000
    return key + 1_000_000 if key % 11 == 0 else key


@pytest.mark.parametrize("ordering", ["ts", None])
def test_pieces_of_a_slice_with_logs(ordering: str | None) -> None:
    ref = table("mor", ordering)
    (read,) = reads(ref, columns=["id", "n"])
    with open_base(ref.env, read.slice.base) as file:  # type: ignore[arg-type]  # there is one
        assert file.metadata.num_row_groups >= 2
    pieces = list(read_slice_pieces(read))
    assert len(pieces) > 3
    assert max(piece.num_rows for piece in pieces) <= 32_768
    found = pa.concat_tables(pieces)
    expected = {k: v for k in range(COUNT) if (v := value(k, ordering)) is not None}
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected
    assert found.num_rows == len(expected)
    assert read_slice(read).equals(found)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(
    "filter",
    ["n between 50000 and 50200", "n > 1090000", "s = 'text 99991'", "id < 12", "n < 0"],
)
def test_filters_on_pieces(kind: str, filter: str) -> None:
    ref = table(kind, "ts")
    whole = everything(kind)
    (read,) = reads(ref, columns=["s", "id"], filter=filter)
    found = [row for piece in read_slice_pieces(read) for row in piece.to_pylist()]
    keep = {
        "n between 50000 and 50200": lambda row: 50000 <= row["n"] <= 50200,
        "n > 1090000": lambda row: row["n"] > 1090000,
        "s = 'text 99991'": lambda row: row["s"] == "text 99991",
        "id < 12": lambda row: row["id"] < 12,
        "n < 0": lambda row: False,
    }[filter]
    expected = [{"s": row["s"], "id": row["id"]} for row in whole if keep(row)]
    assert sorted(found, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])
    assert read_slice(read).column_names == ["s", "id"]
    assert read_slice(read).num_rows == len(expected)


def test_only_columns_that_decide() -> None:
    (read,) = reads(table("mor"), columns=["_hoodie_record_key"])
    keys = pa.concat_tables(list(read_slice_pieces(read)))["_hoodie_record_key"].to_pylist()
    assert sorted(map(int, keys)) == [k for k in range(COUNT) if k % 97 != 3]
