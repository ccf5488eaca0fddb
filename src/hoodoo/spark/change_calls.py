"""The calls of `Table` that change rows by key, by a predicate, or by a source to merge.

They stand here because they go to Spark or to this process; nothing of Spark is imported before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    from hoodoo.write.change_requests import Change
    from hoodoo.write.commit import CommitResult


class ChangeCalls:
    """How users change rows that are there."""

    _ref: TableRef
    _engine: Engine

    def _write(self, operation: OperationType, rows: Any) -> CommitResult:
        """Write rows."""
        raise NotImplementedError

    def _change(self, request: Change, spark: Any) -> CommitResult | None:
        """By Spark if the source is a DataFrame or a session is given, else in this process.

        Then the services are run that are due.
        """
        from hoodoo.services.index_settings import keep_asked_indexes
        from hoodoo.services.upkeep import keep_up
        from hoodoo.write.retry import run_with_retries

        engine, source = self._engine, getattr(request, "source", spark)
        keep_asked_indexes(self._ref, engine)
        if type(source).__module__.startswith("pyspark."):
            from hoodoo.spark.predicate_writes import change as change_by_spark
            from hoodoo.spark.predicate_writes import engine_for

            engine = engine_for(self._ref, source)

            def change(ref: TableRef) -> CommitResult | None:
                return change_by_spark(ref, request, source)
        else:
            from hoodoo.write import predicate_writes

            def change(ref: TableRef) -> CommitResult | None:
                return predicate_writes.change(ref, request, engine)

        done = run_with_retries(self._ref, OperationType.UPSERT, change)
        return keep_up(self._ref, engine, done) if done is not None else None

    @overload
    def delete(self, rows_or_keys: Any) -> CommitResult: ...
    @overload
    def delete(self, *, where: Any, spark: Any = None) -> CommitResult | None: ...
    def delete(
        self, rows_or_keys: Any = None, *, where: Any = None, spark: Any = None
    ) -> CommitResult | None:
        """Delete by key (rows with the key columns, or a list of keys), or by a condition.

            table.delete(["t1", "t2"])
            table.delete(where="city = 'sf' and fare < 3")

        `where` is what `to_arrow` takes as a filter. None if no row matches: nothing is committed.
        """
        if (rows_or_keys is None) == (where is None):
            raise InputError("delete takes rows or keys, or where=; exactly one of the two")
        if where is None:
            return self._write(OperationType.DELETE, rows_or_keys)
        from hoodoo.write.change_requests import DeleteWhere

        return self._change(DeleteWhere(where), spark)

    def update(
        self, set: Mapping[str, Any], where: Any = None, *, spark: Any = None
    ) -> CommitResult | None:
        """Give columns new values where a condition is true, or everywhere.

            table.update({"fare": "fare * 2", "city": "'oslo'"}, where="city = 'Oslo'")

        A text is an SQL expression, anything else a value. A row whose partition column changes
        moves; its record key cannot change. None if no row matches: nothing is committed.
        """
        from hoodoo.write.change_requests import build_update

        return self._change(build_update(set, where), spark)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str],
        *,
        when_matched_update: bool | str | Mapping[str, Any] | Any = None,
        when_matched_delete: bool | str | Any = None,
        when_not_matched_insert: bool | str | Mapping[str, Any] | Any = None,
    ) -> CommitResult | None:
        """Bring rows of a source together with those that have the same values in `on` columns.

            table.merge(
                changes,
                on="trip_id",
                when_matched_delete="source.op = 'D'",
                when_matched_update={"fare": "source.fare + target.tip"},
                when_not_matched_insert="source.op != 'D'",
            )

        Each is True (all columns that the source has), a condition, or {column: value}. A row of
        the table may match one row of the source at most; null matches nothing. None if there is
        nothing to change: nothing is committed.
        """
        from hoodoo.write.change_requests import build_merge

        request = build_merge(
            source, on, when_matched_update, when_matched_delete, when_not_matched_insert
        )
        return self._change(request, None)
