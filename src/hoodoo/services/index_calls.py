"""The calls of `Table` about indexes of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.engine.engine import Engine
from hoodoo.model.progress import OnProgress, count_items
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
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
        progress: OnProgress | None = None,
    ) -> IndexResult | None:
        """Build indexes while others go on writing; None if all of them are there already.

            >>> table.create_index("record_index").built
            ('record_index',)

        Indexes are `files`, `column_stats`, `partition_stats`, `bloom_filters` and `record_index`.
        `columns` are those that get statistics. What is half built is completed; `rebuild` drops
        what is there first, half built or not. `progress` is told, of each index, how many of its
        files are made.
        """
        from hoodoo.services.indexing import create_index

        return create_index(
            *(self._ref, _as_names(indexes), self._engine_on(spark)),
            columns=columns,
            rebuild=rebuild,
            progress_of=lambda index: count_items(index, progress),
        )

    def schedule_index(self, indexes: Names, columns: Sequence[str] | None = None) -> str | None:
        """Plan to build indexes; the instant, or None if all are there or planned.

        From now on all writes keep them, and nothing reads them before `run_index` is done.

            >>> table.schedule_index("bloom_filters") is None
            False
        """
        from hoodoo.services.index_schedule import schedule_index

        scheduled = schedule_index(self._ref, _as_names(indexes), columns=columns)
        return scheduled.requested_time if scheduled else None

    def run_index(
        self,
        instant: str | None = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
    ) -> IndexResult | None:
        """Build planned indexes: of this plan, or of the oldest; None if there is none.

        A build that was cut off goes on with what is there. `progress` as for `create_index`.

            >>> table.run_index() is None  # nothing is planned
            True
        """
        from hoodoo.services.indexing import run_index

        engine = self._engine_on(spark)
        return run_index(self._ref, instant, engine, lambda index: count_items(index, progress))

    def drop_index(self, indexes: Names) -> tuple[str, ...]:
        """Drop indexes, complete or half built; those that went.

        `files` is the metadata table itself: all others go with it.

            >>> table.drop_index("column_stats")
            ('column_stats', 'partition_stats')
        """
        from hoodoo.services.index_drop import drop_index

        return drop_index(self._ref, *_as_names(indexes))


def _as_names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
