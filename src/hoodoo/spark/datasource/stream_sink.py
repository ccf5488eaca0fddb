"""The streaming sink: a function for `foreachBatch` that writes each micro-batch exactly once.

Spark promises each batch at least once: a driver that dies between the commit of the table and the
checkpoint of the query sends the same batch again. Its number goes into the commit as a
transaction, so the table itself tells which batches it has.

Why not `writeStream.format("hoodoo")`: a stream writer in Python is handed rows in tasks, and
commits in a process of its own, without a session. It can append, but not look for keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from pyspark.sql import DataFrame

from hoodoo.errors import InputError
from hoodoo.spark.session.session import session_of

if TYPE_CHECKING:
    from hoodoo.write.commit.publish import CommitResult

WriteBatch: TypeAlias = Callable[[DataFrame, int], None]
"""What `foreachBatch` takes: it is called with the rows and the number of a batch."""

OPERATIONS = (
    *("insert", "bulk_insert", "upsert", "delete"),
    *("insert_overwrite", "insert_overwrite_table"),
)
_QUERY_ID = "sql.streaming.queryId"


class StreamOptions(TypedDict, total=False):
    """How a stream is written."""

    operation: str
    """The name of a write of `Table`; "upsert" unless told."""
    app: str | None
    """Tells this stream from all others; the id of the query unless told."""
    metadata: Mapping[str, str] | None
    """Texts that become extra metadata of each commit."""
    on_commit: Callable[[CommitResult], None] | None
    """Called after each batch, also after one that was skipped."""


def make_batch_writer(
    table: Any,
    *,
    operation: str = "upsert",
    app: str | None = None,
    metadata: Mapping[str, str] | None = None,
    on_commit: Callable[[CommitResult], None] | None = None,
) -> WriteBatch:
    """A function that writes micro-batches to a table, each of them once."""
    if operation not in OPERATIONS:
        raise InputError(f"operation {operation!r} is none of {', '.join(OPERATIONS)}")
    write = getattr(table, operation)

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        batch = (app or _find_query_id(rows), int(batch_id))
        result = write(rows, metadata=metadata, transaction=batch)
        if on_commit is not None:
            on_commit(result)

    return write_batch


def _find_query_id(rows: DataFrame) -> str:
    """The id that a query keeps with its checkpoint; Spark runs its batches under it."""
    query_id = session_of(rows).sparkContext.getLocalProperty(_QUERY_ID)
    if not query_id:
        raise InputError('no streaming query runs this: give stream_to(..., app="name")')
    return str(query_id)
