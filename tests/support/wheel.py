"""The `hudi` wheel (hudi-rs) as an oracle: what it reads, in a form that compares with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder


def wheel_table(path: Path | str) -> Any:
    """The table as the wheel opens it."""
    return HudiTableBuilder.from_base_uri(str(path)).build()


def wheel_rows(path: Path | str, as_of: str | None = None) -> list[dict[str, Any]]:
    """All rows that the wheel reads: latest snapshot, or as of an instant."""
    table = wheel_table(path)
    if as_of is not None:
        from hudi import HudiReadOptions

        batches = table.read(HudiReadOptions().with_as_of_timestamp(as_of))
    else:
        batches = table.read()
    return rows_of(pa.Table.from_batches(batches)) if batches else []


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows in a canonical order, with maps as sorted pairs (their order means nothing)."""
    rows = [{name: _canonical(value) for name, value in row.items()} for row in table.to_pylist()]
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def _canonical(value: Any) -> Any:
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if items and all(isinstance(item, tuple) and len(item) == 2 for item in items):
            return sorted(items, key=repr)
        return items
    if isinstance(value, tuple):
        return tuple(_canonical(item) for item in value)
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    return value
