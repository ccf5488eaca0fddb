"""The calls of `Table` about indexes of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.api.handle import TableCalls
from hoodoo.model.progress import OnProgress, count_items

if TYPE_CHECKING:
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.services.indexing.build import IndexResult

Names = str | Sequence[str]


class TableIndexes(TableCalls):
    """`table.indexes`: build and drop indexes of the metadata table."""

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
        from hoodoo.services.indexing.build import create_index

        return create_index(
            self._ref,
            _as_names(indexes),
            self._engine_on(spark),
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
        from hoodoo.services.indexing.plan import schedule_index

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
        from hoodoo.services.indexing.build import run_index

        engine = self._engine_on(spark)
        return run_index(self._ref, instant, engine, lambda index: count_items(index, progress))

    def drop_index(self, indexes: Names) -> tuple[str, ...]:
        """Drop indexes, complete or half built; those that went.

        `files` is the metadata table itself: all others go with it.

            >>> table.drop_index("column_stats")
            ('column_stats', 'partition_stats')
        """
        from hoodoo.services.indexing.drop import drop_index

        return drop_index(self._ref, *_as_names(indexes))

    def __call__(self) -> list[IndexReport]:
        """Return what `table.inspect.indexes()` does: `table.indexes()` was its name."""
        from hoodoo.deprecated import warn_renamed
        from hoodoo.inspect.indexes import report_indexes

        warn_renamed("Table.indexes()", "table.inspect.indexes()")
        return report_indexes(self._ref)


def _as_names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
