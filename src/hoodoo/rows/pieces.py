"""Tables that come piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def combine_pieces(pieces: Iterable[pa.Table], bytes_at_once: int) -> Iterator[pa.Table]:
    """Pieces put together to larger ones: looking values up has a price for each piece."""
    pending: list[pa.Table] = []
    pending_bytes = 0
    for piece in pieces:
        pending.append(piece)
        pending_bytes += piece.nbytes
        if pending_bytes >= bytes_at_once:
            yield pa.concat_tables(pending)
            pending, pending_bytes = [], 0
    if pending:
        yield pa.concat_tables(pending)
