"""Appending through the data source: a bulk insert whose parts Spark runs where it likes.

Spark asks for a writer in one process, which begins the write; hands the rows to tasks; and has
`commit` or `abort` run in yet another process. `write.detached` says what they owe each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hoodoo.errors import HoodooError, InputError, TaskStopped
from hoodoo.model.commit import WriteStat
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Process, SystemIds
from hoodoo.services.indexing.create import build_requested_indexes
from hoodoo.services.upkeep import run_inline_services
from hoodoo.spark.schema import HOODOO_COLUMNS, arrow_schema
from hoodoo.spark.session.workers import return_permanent_errors
from hoodoo.table.ref import TableRef
from hoodoo.write.detached import (
    DetachedWrite,
    abandon_detached,
    begin_detached,
    commit_detached,
    write_rows,
)


def begin_append(ref: TableRef, schema: StructType) -> AppendWriter:
    """Begin a bulk insert of rows of this schema."""
    for name in schema.names:
        if name in HOODOO_COLUMNS:
            raise InputError(f"column {name!r}: the name is hoodoo's own")
    build_requested_indexes(ref, LocalEngine())  # Spark's session is in another process
    return AppendWriter(begin_detached(_with_source_ids(ref), arrow_schema(schema)))


@dataclass(frozen=True)
class Part(WriterCommitMessage):
    """What a task wrote, or why it could not."""

    stats: tuple[WriteStat, ...] = ()
    error: HoodooError | None = None


class AppendWriter(DataSourceArrowWriter):
    """A write that has begun; Spark carries it to the tasks and to where it ends."""

    def __init__(self, write: DetachedWrite) -> None:
        self._begun = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:
        """Write the rows of a task; what trying again cannot mend is returned, not raised."""
        task = TaskContext.get()
        assert task is not None
        ids = {"number": task.partitionId(), "attempt": task.taskAttemptId()}
        stats = return_permanent_errors(lambda: write_rows(self._here(), iterator, **ids))
        return Part(error=stats) if isinstance(stats, HoodooError) else Part(stats)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote, or nothing."""
        parts = [message for message in messages if isinstance(message, Part)]
        errors = [part.error for part in parts if part.error is not None]
        if errors:
            self.abort(messages)
            # Some may only tell that another task failed.
            raise next((e for e in errors if not isinstance(e, TaskStopped)), errors[0])
        write, engine = self._here(), LocalEngine()
        commit_detached(write, [s for part in parts for s in part.stats], engine)
        run_inline_services(write.ref, engine)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Roll back; Spark also asks for it when `commit` failed, whatever came of that."""
        abandon_detached(self._here())

    def _here(self) -> DetachedWrite:
        context = self._begun.context
        return replace(self._begun, context=replace(context, ref=_with_source_ids(context.ref)))


class _SourceIds(SystemIds):
    """Spark's Python processes all have one name, which tells people nothing."""

    def process(self) -> Process:
        return replace(super().process(), app="Spark data source")


def _with_source_ids(ref: TableRef) -> TableRef:
    return replace(ref, env=replace(ref.env, ids=_SourceIds()))
