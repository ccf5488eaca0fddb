"""Streams of Spark into tables: `stream_to`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hoodoo.api import Table, open_table
from hoodoo.storage.uri import PathText

if TYPE_CHECKING:
    from hoodoo.spark.stream_sink import StreamOptions, WriteBatch


def stream_to(table: Table | PathText, **how: Unpack[StreamOptions]) -> WriteBatch:
    """A function for `foreachBatch` that writes each micro-batch of a stream exactly once.

        rows.writeStream.foreachBatch(hoodoo.stream_to("/data/trips", operation="upsert"))

    `app` tells the stream from others that write to the table; by default it is the id of the
    query, which it keeps as long as it keeps its checkpoint.
    """
    from hoodoo.spark.stream_sink import make_batch_writer

    return make_batch_writer(table if isinstance(table, Table) else open_table(table), **how)
