"""The calls of `Table` about indexes of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.engine.engine import Engine
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.services.indexing import IndexResult

Names = str | Sequence[str]


class IndexCalls:
    """What users do with indexes."""

    _ref: TableRef

    def _engine_on(self, spark: Any) -> Engine:
        """Where files are read."""
        raise NotImplementedError

    def create_index(
        self,
        indexes: Names,
        columns: Sequence[str] | None = None,
        *,
        rebuild: bool = False,
        spark: Any = None,
    ) -> IndexResult | None:
        """Build indexes while others go on writing; None if all of them are there already.

            table.create_index("column_stats", columns=["fare", "city"])

        Indexes are `files`, `column_stats`, `partition_stats`, `bloom_filters` and `record_index`.
        `columns` are those that get statistics. What is half built is completed; `rebuild` drops
        what is there first, half built or not.
        """
        from hoodoo.services.indexing import create_index

        names = _as_names(indexes)
        engine = self._engine_on(spark)
        return create_index(self._ref, names, engine, columns=columns, rebuild=rebuild)

    def schedule_index(self, indexes: Names, columns: Sequence[str] | None = None) -> str | None:
        """Plan to build indexes; the instant, or None if all are there or planned.

        From now on all writes keep them, and nothing reads them before `run_index` is done.
        """
        from hoodoo.services.index_schedule import schedule_index

        scheduled = schedule_index(self._ref, _as_names(indexes), columns=columns)
        return scheduled.requested_time if scheduled else None

    def run_index(self, instant: str | None = None, *, spark: Any = None) -> IndexResult | None:
        """Build planned indexes: of this plan, or of the oldest; None if there is none.

        A build that was cut off goes on with what is there.
        """
        from hoodoo.services.indexing import run_index

        return run_index(self._ref, instant, self._engine_on(spark))

    def drop_index(self, indexes: Names) -> tuple[str, ...]:
        """Drop indexes, complete or half built; those that went.

        `files` is the metadata table itself: all others go with it.
        """
        from hoodoo.services.index_drop import drop_index

        return drop_index(self._ref, *_as_names(indexes))

    def indexes(self) -> list[IndexReport]:
        """The indexes of the metadata table: in use, being built, or stuck."""
        from hoodoo.inspect.indexes import report_indexes

        return report_indexes(self._ref)


def _as_names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
