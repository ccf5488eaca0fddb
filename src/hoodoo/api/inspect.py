"""The calls of `Table` that look into it and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.api.handle import TableCalls

if TYPE_CHECKING:
    from hoodoo.inspect.conflicts import InProgressReport
    from hoodoo.inspect.doctor import Finding
    from hoodoo.inspect.files import FilesReport
    from hoodoo.inspect.history import CommitReport
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.inspect.locks import LockReport
    from hoodoo.inspect.plans import PlanReport
    from hoodoo.inspect.timeline import InstantReport


class TableInspection(TableCalls):
    """`table.inspect`: reports; nothing is changed."""

    def history(
        self, limit: int | None = None, *, include_archived: bool = False
    ) -> list[CommitReport]:
        """Completed commits, newest first: instant, completion time, operation, rows, metadata.

        Rows are those inserted, updated and deleted. Archived commits only if asked for.

            >>> [(commit.operation, commit.inserted) for commit in table.history(limit=1)]
            [('INSERT', 3)]
        """
        from hoodoo.inspect.history import report_history

        return report_history(self._ref, include_archived=include_archived, last=limit)

    def timeline(self, *, include_archived: bool = False) -> list[InstantReport]:
        """Instants, oldest first: action, state, requested, completed, owner, age.

        >>> [(instant.action, instant.state) for instant in table.timeline()]
        [('commit', 'completed')]
        """
        from hoodoo.inspect.timeline import report_timeline

        return report_timeline(self._ref, include_archived=include_archived)

    def files(self, partition: str | None = None) -> FilesReport:
        """File groups with their slices, and a histogram of file sizes.

        >>> table.files().totals.file_groups, table.files("city=sf").totals.file_groups
        (2, 1)
        """
        from hoodoo.inspect.files import report_files

        return report_files(self._ref, partition=partition)

    def plans(self) -> list[PlanReport]:
        """Pending plans of table services: what they are about and block, and who runs them.

        >>> table.plans()
        []
        """
        from hoodoo.inspect.plans import report_plans

        return report_plans(self._ref)

    def indexes(self) -> list[IndexReport]:
        """The indexes of the metadata table: in use, being built, or stuck.

        >>> [index.name for index in table.inspect.indexes()]
        ['column_stats', 'files', 'partition_stats']
        """
        from hoodoo.inspect.indexes import report_indexes

        return report_indexes(self._ref)

    def conflicts(self) -> list[InProgressReport]:
        """Writes in progress and pending plans: which file groups they touch, and who will lose.

        >>> table.conflicts()
        []
        """
        from hoodoo.inspect.conflicts import report_conflicts

        return report_conflicts(self._ref)

    def doctor(self) -> list[Finding]:
        """What is wrong with the table, why, and the command that repairs it.

        >>> table.doctor()
        []
        """
        from hoodoo.inspect.doctor import diagnose

        return diagnose(self._ref)

    def lock_status(self) -> LockReport:
        """Who holds the table's lock, since when, and how long yet.

        >>> table.lock_status().is_held
        False
        """
        from hoodoo.inspect.locks import lock_status

        return lock_status(self._ref)
