"""The calls of `Table` that change rows by key, by a predicate, or by a source to merge.

They stand here because they go to Spark or to this process; nothing of Spark is imported before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType
from hoodoo.model.commit_notes import Notes, check_notes
from hoodoo.model.progress import OnProgress
from hoodoo.model.spark_values import is_of_spark, is_spark_column
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    from hoodoo.write.change_requests import Change
    from hoodoo.write.commit import CommitResult


class ChangeCalls:
    """How users change rows that are there."""

    _ref: TableRef
    _engine: Engine

    def _write(
        self, operation: OperationType, rows: Any, progress: OnProgress | None, notes: Notes
    ) -> CommitResult:
        """Write rows."""
        raise NotImplementedError

    def _change(
        self, request: Change, spark: Any, progress: OnProgress | None, notes: Notes
    ) -> CommitResult | None:
        """By Spark if the source is a DataFrame or a session is given, else in this process.

        Then the services are run that are due.
        """
        from hoodoo.services.index_settings import keep_asked_indexes
        from hoodoo.services.upkeep import keep_up
        from hoodoo.write.retry import run_with_retries

        engine, source = self._engine, getattr(request, "source", spark)
        keep_asked_indexes(self._ref, engine)
        if is_of_spark(source):
            from hoodoo.spark.predicate_writes import change as change_by_spark
            from hoodoo.spark.predicate_writes import engine_for

            engine = engine_for(self._ref, source)

            def change(ref: TableRef) -> CommitResult | None:
                return change_by_spark(ref, request, source, progress)
        else:
            from hoodoo.write import predicate_writes
            from hoodoo.write.change_requests import expressions_of

            if any(map(is_spark_column, expressions_of(request))):
                raise InputError("a Column is for Spark to compute: give the session, spark=")

            def change(ref: TableRef) -> CommitResult | None:
                return predicate_writes.change(ref, request, engine, progress)

        mine = self._ref.with_notes(check_notes(notes))
        done = run_with_retries(mine, OperationType.UPSERT, change)
        return keep_up(self._ref, engine, done, progress) if done is not None else None

    @overload
    def delete(
        self,
        rows_or_keys: Any,
        *,
        progress: OnProgress | None = None,
        **notes: Unpack[Notes],
    ) -> CommitResult: ...
    @overload
    def delete(
        self,
        *,
        where: Any,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[Notes],
    ) -> CommitResult | None: ...
    def delete(
        self,
        rows_or_keys: Any = None,
        *,
        where: Any = None,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[Notes],
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
        from hoodoo.write.change_requests import DeleteWhere

        return self._change(DeleteWhere(where), spark, progress, notes)

    def update(
        self,
        set: Mapping[str, Any],
        where: Any = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
        **notes: Unpack[Notes],
    ) -> CommitResult | None:
        """Give columns new values where a condition is true, or everywhere.

            >>> table.update({"fare": "fare * 2"}, where="city = 'oslo'").stats.updated
            1

        A text is an SQL expression, anything else a value. A row whose partition column changes
        moves; its record key cannot change. None if no row matches: nothing is committed.
        """
        from hoodoo.write.change_requests import build_update

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
        **notes: Unpack[Notes],
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
        from hoodoo.write.change_requests import build_merge

        request = build_merge(
            source, on, when_matched_update, when_matched_delete, when_not_matched_insert
        )
        return self._change(request, None, progress, notes)
