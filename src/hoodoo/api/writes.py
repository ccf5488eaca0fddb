"""The calls of `Table` that write rows, and that change them by key, predicate or merge.

Rows and sources of Spark go to Spark, others are written by this process; nothing of Spark is
imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from hoodoo.api.handle import TableCalls
from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType, WriteNotes, check_notes
from hoodoo.model.progress import OnProgress
from hoodoo.runtime.engine import Engine, is_of_spark, is_spark_column
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    from hoodoo.write.commit.publish import CommitResult
    from hoodoo.write.row_changes.requests import Change


class TableWrites(TableCalls):
    """The calls that write and change rows."""

    def insert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[WriteNotes]
    ) -> CommitResult:
        """Add rows; keys that are there already are not looked for.

        `rows` of this and the other writes are a pandas, polars or Spark frame, a pyarrow.Table,
        RecordBatch or RecordBatchReader, anything with `__arrow_c_stream__`, or a list of dicts.
        A pandas index is a column if it has a name. Times in nanoseconds are cast to microseconds
        if nothing is lost. `progress` is told of each phase, and of the files done in it.
        `metadata` is noted in the commit, and read back by `history`; of a `transaction` (an
        application, and the number of a batch) nothing is written if that batch is committed.

            >>> table.insert([{"id": 4, "city": "sf", "fare": 8.4, "ts": 2}]).stats.inserted
            1
        """
        return self._write(OperationType.INSERT, rows, progress, notes)

    def bulk_insert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[WriteNotes]
    ) -> CommitResult:
        """Add rows as new files, leaving existing ones alone. Arguments as of `insert`.

        >>> table.bulk_insert(pa.Table.from_pylist(rows)).stats.files
        2
        """
        return self._write(OperationType.BULK_INSERT, rows, progress, notes)

    def upsert(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[WriteNotes]
    ) -> CommitResult:
        """Update the rows whose keys are there, add the others. Arguments as of `insert`.

        >>> day = pd.DataFrame({"id": [1, 5], "city": "sf", "fare": [25.0, 9.5], "ts": 2})
        >>> stats = table.upsert(day, progress=print).stats  # doctest: +ELLIPSIS
        Progress(phase='prepare', done=0, total=None)
        ...
        Progress(phase='commit', done=1, total=1)
        >>> stats.updated, stats.inserted
        (1, 1)
        """
        return self._write(OperationType.UPSERT, rows, progress, notes)

    def insert_overwrite(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[WriteNotes]
    ) -> CommitResult:
        """Replace the rows of every partition that occurs in `rows`. Arguments as of `insert`.

        >>> done = table.insert_overwrite([{"id": 9, "city": "sf", "fare": 1.0, "ts": 3}])
        >>> sorted(table.to_arrow(columns=["id"])["id"].to_pylist())
        [3, 9]
        """
        return self._write(OperationType.INSERT_OVERWRITE, rows, progress, notes)

    def insert_overwrite_table(
        self, rows: Any, *, progress: OnProgress | None = None, **notes: Unpack[WriteNotes]
    ) -> CommitResult:
        """Replace all rows of the table. Arguments as of `insert`.

        >>> done = table.insert_overwrite_table(rows[:1])
        >>> table.count()
        1
        """
        return self._write(OperationType.INSERT_OVERWRITE_TABLE, rows, progress, notes)

    def delete_partitions(
        self,
        partitions: Sequence[str],
        *,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult:
        """Take all rows of these partitions (paths such as `city=sf`) out.

        >>> done = table.delete_partitions(["city=sf"])
        >>> table.count()
        1
        """
        return self._write(OperationType.DELETE_PARTITION, partitions, progress, notes)

    @overload
    def delete(
        self,
        rows_or_keys: Any,
        *,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult: ...
    @overload
    def delete(
        self,
        *,
        where: Any,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult | None: ...
    def delete(
        self,
        rows_or_keys: Any = None,
        *,
        where: Any = None,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult | None:
        """Delete by key (rows with the key columns, a list or series of keys), or by a condition.

        With the partition columns beside the keys only those partitions are searched. `where` is
        what `to_arrow` takes as a filter; None if no row matches: nothing is committed.

            >>> table.delete([2]).stats.deleted
            1
            >>> table.delete(where="city = 'oslo' and fare < 100").stats.deleted
            1
        """
        if (rows_or_keys is None) == (where is None) or is_spark_column(rows_or_keys):
            raise InputError("delete takes rows or keys, or where=; exactly one of the two")
        if where is None:
            return self._write(OperationType.DELETE, rows_or_keys, progress, notes)
        from hoodoo.write.row_changes.requests import DeleteWhere

        return self._change(DeleteWhere(where), spark, progress, notes)

    def update(
        self,
        set: Mapping[str, Any],
        where: Any = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult | None:
        """Give columns new values where a condition is true, or everywhere.

            >>> table.update({"fare": "fare * 2"}, where="city = 'oslo'").stats.updated
            1

        A text is an SQL expression, anything else a value. A row whose partition column changes
        moves; its record key cannot change. None if no row matches: nothing is committed.
        """
        from hoodoo.write.row_changes.requests import build_update

        return self._change(build_update(set, where), spark, progress, notes)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str],
        *,
        when_matched_update: bool | str | Mapping[str, Any] | Any = None,
        when_matched_delete: bool | str | Any = None,
        when_not_matched_insert: bool | str | Mapping[str, Any] | Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[WriteNotes],
    ) -> CommitResult | None:
        """Bring rows of a source together with those that have the same values in `on` columns.

            >>> news = [{"id": 1, "fare": 3.0}, {"id": 9, "city": "sf", "fare": 2.0, "ts": 1}]
            >>> done = table.merge(
            ...     pa.Table.from_pylist(news, table.schema),
            ...     on="id",
            ...     when_matched_update={"fare": "source.fare + target.fare"},
            ...     when_not_matched_insert="source.fare > 1",
            ... )
            >>> done.stats.updated, done.stats.inserted
            (1, 1)

        Each is True (all columns that the source has), a condition, or {column: value}. A row of
        the table may match one row of the source at most; null matches nothing. None if there is
        nothing to change: nothing is committed.
        """
        from hoodoo.write.row_changes.requests import build_merge

        request = build_merge(
            source, on, when_matched_update, when_matched_delete, when_not_matched_insert
        )
        return self._change(request, None, progress, notes)

    def _write(
        self, operation: OperationType, rows: Any, progress: OnProgress | None, notes: WriteNotes
    ) -> CommitResult:
        """Spark writes rows of its DataFrames, this process all others."""
        from hoodoo.services.upkeep import write_and_run_services

        commit_notes = check_notes(notes)
        if is_of_spark(rows):
            from hoodoo.spark.engine import engine_for
            from hoodoo.spark.write.write import write as write_by_spark

            engine: Engine = engine_for(self._ref, rows)

            def write(ref: TableRef) -> CommitResult:
                return write_by_spark(ref, operation, rows, progress)
        else:
            from hoodoo.write.operations import read_input
            from hoodoo.write.operations import write as write_here

            engine = self._engine
            incoming = read_input(self._ref, operation, rows)  # a stream cannot be read again

            def write(ref: TableRef) -> CommitResult:
                return write_here(ref, operation, incoming, engine, progress)

        return write_and_run_services(self._ref, engine, operation, write, commit_notes, progress)

    def _change(
        self, request: Change, spark: Any, progress: OnProgress | None, notes: WriteNotes
    ) -> CommitResult | None:
        """Spark changes rows if the source is its own or a session is given, else this process."""
        from hoodoo.services.upkeep import write_and_run_services

        commit_notes, source = check_notes(notes), getattr(request, "source", spark)
        if is_of_spark(source):
            from hoodoo.spark.engine import engine_for
            from hoodoo.spark.row_changes.operations import change as change_by_spark

            engine: Engine = engine_for(self._ref, source)

            def change(ref: TableRef) -> CommitResult | None:
                return change_by_spark(ref, request, source, progress)
        else:
            from hoodoo.write.row_changes.operations import change as change_here
            from hoodoo.write.row_changes.requests import expressions_of

            if any(map(is_spark_column, expressions_of(request))):
                raise InputError("a Column is for Spark to compute: give the session, spark=")
            engine = self._engine

            def change(ref: TableRef) -> CommitResult | None:
                return change_here(ref, request, engine, progress)

        upsert = OperationType.UPSERT
        return write_and_run_services(self._ref, engine, upsert, change, commit_notes, progress)
