"""Rows for people: the first few without reading the rest, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from hoodoo.engine.engine import Item, Result
from hoodoo.engine.local import LocalEngine
from hoodoo.engine.stop import Stop
from hoodoo.errors import naming
from hoodoo.format.parquet import open_parquet
from hoodoo.model.files import FileSlice
from hoodoo.table.read import read_rows_of, read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.scan import scan
from hoodoo.table.snapshot import take_snapshot


class _UntilEnough:
    """Reads slice after slice, and stops once the rows asked for are there."""

    repeats = False

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: Stop | None = None,
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        results: list[Result] = []
        rows = 0
        for item in items:
            if rows >= self._limit:
                break
            result = task(item)
            rows += len(result) if isinstance(result, pa.Table) else 0
            results.append(result)
        return results


def first_rows(
    ref: TableRef,
    *,
    limit: int | None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
) -> pa.Table:
    """At most `limit` rows, in no particular order; None reads them all."""
    engine = LocalEngine() if limit is None else _UntilEnough(limit)
    rows = scan(ref, engine, columns=columns, filter=filter, as_of=as_of, mode=mode)
    return rows if limit is None else rows.slice(0, limit)


def count_rows(ref: TableRef) -> int:
    """Rows of the latest snapshot: footers tell, except where logs must be merged first."""
    snapshot = take_snapshot(ref)
    engine = LocalEngine()
    slices = snapshot.slices()
    merged = [slice_ for slice_ in slices if slice_.logs]
    rule = read_rule(snapshot, columns=snapshot.schema.names[:1])
    counted = engine.map(_Footers(ref), [slice_ for slice_ in slices if not slice_.logs])
    return sum(counted) + len(read_rows_of(snapshot, rule, engine, merged))


class _Footers:
    """The task of counting a slice's rows by its base file's footer."""

    def __init__(self, ref: TableRef) -> None:
        self._ref = ref

    def __call__(self, slice_: FileSlice) -> int:
        assert slice_.base is not None
        path = slice_.base.path
        with naming(path), self._ref.env.storage.open_read(path) as source:
            return int(open_parquet(source).metadata.num_rows)
