"""Rows for people: the first few without reading the rest, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hoodoo.engine.local import LocalEngine
from hoodoo.table import stream
from hoodoo.table.ref import TableRef
from hoodoo.table.scan import scan, select


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
    if limit is None:
        return scan(ref, LocalEngine(), columns=columns, filter=filter, as_of=as_of, mode=mode)
    selection = select(ref, columns=columns, filter=filter, as_of=as_of, mode=mode)
    return stream.first_rows(selection, limit)


def count_rows(ref: TableRef) -> int:
    """Rows of the latest snapshot: footers tell, except where logs must be merged first."""
    engine = LocalEngine()
    return stream.count_rows(select(ref, columns=stream.key_columns(ref), engine=engine), engine)
