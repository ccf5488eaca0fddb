"""The calls of `Table` that plan, run and end table services, and that undo what died."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodoo.api.handle import TableCalls
from hoodoo.model.progress import OnProgress, count_items

if TYPE_CHECKING:
    from hoodoo.model.plans import PlanTerms
    from hoodoo.recovery.recover import RecoverResult
    from hoodoo.recovery.rollback import RollbackResult
    from hoodoo.services.plans.execute import ServiceResult


class TableServices(TableCalls):
    """`table.services`: plan, run, cancel and recover."""

    def schedule_compaction(
        self,
        *,
        cancellable: bool = False,
        cancellation_policy: Mapping[str, float] | None = None,
    ) -> str | None:
        """Plan a compaction of a merge-on-read table; its instant, or None if none is worth it.

        A compaction merges the logs of each file group into a new base file. `cancellation_policy`
        is {"hours": h, "instants": n}: when a cancellable plan that nobody completed is cancelled.

            >>> len(mor.schedule_compaction(cancellable=True))
            17
        """
        from hoodoo.services.compaction.compaction import schedule_compaction

        terms = _plan_terms(cancellable=cancellable, limits=cancellation_policy)
        scheduled = schedule_compaction(self._ref, terms=terms)
        return scheduled.requested_time if scheduled else None

    def run_compaction(
        self,
        instant: str | None = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
    ) -> ServiceResult | None:
        """Execute a planned compaction: this one, or the oldest; None if there is none.

        By tasks of a Spark session if one is given and there is much to do, else in this process.
        `progress` is told how many file groups are done.

            >>> plan = mor.schedule_compaction()
            >>> mor.run_compaction(plan).stats.files
            1
        """
        from hoodoo.services.compaction.compaction import run_compaction

        tell = count_items("compaction", progress)
        return run_compaction(self._ref, instant, self._engine_on(spark), tell)

    def schedule_log_compaction(
        self,
        *,
        removable: bool = False,
        cancellable: bool = False,
        cancellation_policy: Mapping[str, float] | None = None,
    ) -> str | None:
        """Plan a log compaction of a merge-on-read table; its instant, or None if none is due.

        A log compaction merges the logs of a file group into one log file; the base file stays.
        A clean takes a removable plan away whose execution failed, or that nobody executes;
        `cancellation_policy` is as for `schedule_compaction`.

            >>> mor.schedule_log_compaction() is None  # there is one log file
            True
        """
        from hoodoo.services.compaction.log_compaction import schedule_log_compaction

        terms = _plan_terms(
            cancellable=cancellable, removable=removable, limits=cancellation_policy
        )
        scheduled = schedule_log_compaction(self._ref, terms=terms)
        return scheduled.requested_time if scheduled else None

    def run_log_compaction(
        self,
        instant: str | None = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
    ) -> ServiceResult | None:
        """Execute a planned log compaction: this one, or the oldest; None if there is none.

        By tasks of a Spark session if one is given and there is much to do, else in this process.
        `progress` is told how many file groups are done.

            >>> mor.run_log_compaction() is None  # none is planned
            True
        """
        from hoodoo.services.compaction.log_compaction import run_log_compaction

        tell = count_items("logcompaction", progress)
        return run_log_compaction(self._ref, instant, self._engine_on(spark), tell)

    def schedule_clustering(
        self,
        order_by: str | Sequence[str] | None = None,
        layout: str | None = None,
        *,
        removable: bool = False,
        cancellable: bool = False,
        cancellation_policy: Mapping[str, float] | None = None,
    ) -> str | None:
        """Plan to put rows of small files together; its instant, or None if nothing is to gain.

        Rows are ordered by the columns of `order_by`, in the `layout` "linear", "zorder" or
        "hilbert"; by those of the settings if none are given. A clean may drop a `removable` plan.
        Writes take precedence over a `cancellable` one; `cancellation_policy` as for compactions.

            >>> len(table.schedule_clustering(order_by="fare", layout="linear"))
            17
        """
        from hoodoo.services.clustering.clustering import schedule_clustering

        terms = _plan_terms(
            cancellable=cancellable, removable=removable, limits=cancellation_policy
        )
        scheduled = schedule_clustering(self._ref, order_by=order_by, layout=layout, terms=terms)
        return scheduled.requested_time if scheduled else None

    def run_clustering(
        self,
        instant: str | None = None,
        *,
        spark: Any = None,
        progress: OnProgress | None = None,
    ) -> ServiceResult | None:
        """Execute a planned clustering: this one, or the oldest; None if there is none.

        By tasks of a Spark session if one is given and there is much to do, else in this process.
        `progress` is told how many file groups are done.

            >>> plan = table.schedule_clustering(order_by="fare")
            >>> table.run_clustering(plan).stats.files
            2
        """
        from hoodoo.services.clustering.clustering import run_clustering

        tell = count_items("clustering", progress)
        return run_clustering(self._ref, instant, self._engine_on(spark), tell)

    def request_cancel(self, instant: str, *, force: bool = False) -> bool:
        """Ask for the end of a cancellable plan; nobody can complete it from now on.

        False if that was asked before. `force` also takes plans that are not cancellable.

            >>> plan = mor.schedule_compaction(cancellable=True)
            >>> mor.request_cancel(plan)
            True
        """
        from hoodoo.services.plans.cancel import request_cancel

        return request_cancel(self._ref, instant, force=force)

    def execute_cancel(self, instant: str) -> RollbackResult | None:
        """Carry out a cancel that was requested; None if that is done already.

        >>> plan = mor.schedule_compaction(cancellable=True)
        >>> mor.request_cancel(plan)
        True
        >>> mor.execute_cancel(plan).action
        'compaction'
        """
        from hoodoo.services.plans.cancel import execute_cancel

        return execute_cancel(self._ref, instant)

    def recover(self) -> RecoverResult:
        """Roll back writes whose writer died, finish rollbacks that were cut off, and sweep.

        Writers that are alive are not disturbed; what was left, and why, is in the answer.

            >>> table.recover().rolled_back
            ()
        """
        from hoodoo.recovery.recover import recover

        return recover(self._ref)

    def rollback(self, instant: str, *, force: bool = False) -> RollbackResult:
        """Roll back a pending instant; `force` also takes it from a writer that is alive.

        That writer fails when it wants to commit. Commits that are completed stay: rolling one
        back is an `AlreadyCommitted`; `undo` takes the latest one back.

            >>> table.rollback(table.history()[0].instant)
            Traceback (most recent call last):
            hoodoo.errors.AlreadyCommitted: ...
        """
        from hoodoo.recovery.recover import roll_back

        return roll_back(self._ref, instant, force=force)


def _plan_terms(
    *,
    cancellable: bool,
    limits: Mapping[str, float] | None = None,
    removable: bool = False,
) -> PlanTerms:
    from hoodoo.services.plans.pending import build_terms

    return build_terms(cancellable=cancellable, removable=removable, limits=limits)
