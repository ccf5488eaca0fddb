"""Plans of table services: executed, lost, taken over, cancelled; and writers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from hoodoo.api.table import Table
from hoodoo.errors import (
    AlreadyCommitted,
    CancelNotRequested,
    NotCancellable,
    PlanCancelled,
    PlanInProgress,
    PlanNotExecutable,
    WriteConflict,
)
from hoodoo.format import json_files
from hoodoo.model import paths
from hoodoo.model.coordination import AbortedPlan
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.model.plans import PlanPolicy, PlanTerms
from hoodoo.runtime.env import Env
from hoodoo.services.clustering.clustering import schedule_clustering
from hoodoo.services.compaction.compaction import schedule_compaction
from hoodoo.services.compaction.log_compaction import schedule_log_compaction
from hoodoo.services.plans.execute import ServiceResult
from hoodoo_testing.simulator.actors.tables import EXPIRY_MS, TableScenario, Write
from hoodoo_testing.simulator.checks.truth import read_stored_table
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.scenarios.overwrites import committed_by_process
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, World

_APPENDS: Mapping[str, object] = MappingProxyType({"hoodie.parquet.small.file.limit": 0})
"""New keys go to new file groups, so that writes only append to the one that is compacted."""
_SCHEDULE: Mapping[str, Callable[..., Instant | None]] = MappingProxyType(
    {
        "compaction": schedule_compaction,
        "log_compaction": schedule_log_compaction,
        "clustering": schedule_clustering,
    }
)


class PlanScenario(TableScenario):
    """A merge-on-read table with a log file, and a plan about it that waits for its executor."""

    table_type = "mor"
    options = _APPENDS
    service: ClassVar[str] = "compaction"
    terms: ClassVar[PlanTerms] = PlanTerms()
    past: ClassVar[tuple[Write, ...]] = (Write(1, ("a", "b")),)

    def __init__(self) -> None:
        super().__init__()
        self.plan = InstantTime("")
        self.completed_by: list[str] = []
        self.is_cancelled = False

    @property
    def preparation(self) -> object:
        return (self.past, self.service, self.terms)

    def prepare(self, env: Env) -> None:
        """The other writes, and the plan."""
        table = self.table(env)
        for write in self.past:
            table.upsert(write.rows())
        assert _SCHEDULE[self.service](table._ref, terms=self.terms) is not None

    def setup(self, world: World) -> None:
        super().setup(world)
        truth = read_stored_table(world.storage)
        for write, instant in zip(self.past, truth.completed[1:], strict=True):
            self.ledger.writes[write.v] = write
            self.ledger.acknowledgements[write.v] = instant.requested_time
        (self.plan,) = truth.plans

    def run_plan(self, table: Table) -> ServiceResult:
        """Execute the plan."""
        run: Callable[[str], ServiceResult] = getattr(table, f"run_{self.service}")
        return run(self.plan)

    # -- actors -------------------------------------------------------------------------------

    def executor(self, *, after_ms: int = 0, spread_ms: int = 0, tries: int = 1) -> ActorAction:
        """An actor that executes the plan, and tries again after a while."""

        def act(env: Env) -> None:
            for _ in range(tries):
                env.clock.sleep((after_ms + spread_ms * env.ids.jitter()) / 1000)
                self.execute(env)

        return act

    def execute(self, env: Env) -> None:
        """Execute the plan, unless that is refused for a reason that there is."""
        try:
            result = self.run_plan(self.table(env))
        except (PlanInProgress, PlanNotExecutable, PlanCancelled, WriteConflict):
            return
        if not result.completed_by_other:
            self.completed_by.append(env.ids.process().host)

    def canceller(self, *, after_ms: int = 0, execute_after_ms: int = 0) -> ActorAction:
        """An actor that asks for the end of the plan, and then carries that out."""

        def act(env: Env) -> None:
            env.clock.sleep(after_ms / 1000 * env.ids.jitter())
            table = self.table(env)
            try:
                table.request_cancel(self.plan)
                self.is_cancelled = True
                env.clock.sleep(execute_after_ms / 1000)
                table.execute_cancel(self.plan)
            except (AlreadyCommitted, NotCancellable, PlanInProgress, CancelNotRequested):
                return

        return act

    # -- what must hold -----------------------------------------------------------------------

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        truth = read_stored_table(world.storage)
        states = {i.state for i in truth.instants if i.requested_time == self.plan}
        if len(self.completed_by) > 1:
            raise Violation(f"plan {self.plan} was completed by {self.completed_by}")
        if self.completed_by and State.COMPLETED not in states:
            raise Violation(f"plan {self.plan} was said to be completed, and is not")
        if self.is_cancelled and State.COMPLETED in states:
            raise Violation(f"plan {self.plan} was cancelled, and is completed")
        if State.ABORTED in states and len(states) > 1:
            raise Violation(f"plan {self.plan} is aborted, and also {states}")
        has_record = world.storage.exists(paths.aborted_plan_path(self.plan))
        if has_record != (State.ABORTED in states):
            raise Violation(f"plan {self.plan}: record {has_record}, states {states}")
        if has_record:
            self._check_reason(world, completed_times={i.requested_time for i in truth.completed})
        requests = [entry.path for entry in world.storage.list(paths.CANCELS)]
        if requests:
            raise Violation(f"cancel requests are left: {requests}")
        if states and not states & {State.COMPLETED, State.ABORTED}:
            raise Violation(f"plan {self.plan} is stuck: {states}")

    def _check_reason(self, world: World, completed_times: set[InstantTime]) -> None:
        """A write that ended the plan is committed: one that was refused ends nothing."""
        data = world.storage.read(paths.aborted_plan_path(self.plan))
        first = json_files.decode(data, AbortedPlan).find_winner()
        if first is not None and first not in completed_times:
            raise Violation(f"plan {self.plan} was ended by {first}, which is not committed")

    def _mend(self, world: World) -> None:
        super()._mend(world)
        for _ in range(3):
            world.do("upkeep", self._run_pending)
            world.pass_time(EXPIRY_MS + 1)
            world.do("mender", lambda env: self.table(env).recover())

    def _run_pending(self, env: Env) -> None:
        """What any process does for a plan that is left."""
        table = self.table(env)
        if self.plan in {i.requested_time for i in table._ref.load_timeline().pending}:
            try:
                self.run_plan(table)
            except (PlanNotExecutable, PlanInProgress):
                self._cancel_or_wait(env)
            except PlanCancelled:
                table.execute_cancel(self.plan)
            except WriteConflict:  # it lost to a write, and has ended itself
                return

    def _cancel_or_wait(self, env: Env) -> None:
        if self.terms.is_cancellable:
            table = self.table(env)
            table.request_cancel(self.plan)
            try:
                table.execute_cancel(self.plan)
            except PlanInProgress:
                return


class Execution(PlanScenario):
    """Design 000, persistent plans, A to C: executors on one plan, and a writer."""

    name = "execution"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(),
            "y": self.executor(after_ms=500),
            "w": self.writer(Write(2, ("a", "d"))),
        }


class Takeover(PlanScenario):
    """The same; the second executor comes when the first may count as dead."""

    name = "takeover"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(),
            "y": self.executor(after_ms=EXPIRY_MS + 10_000, tries=2),
            "w": self.later(Write(2, ("a", "d")), after_ms=EXPIRY_MS),
        }


class RemovableExecution(PlanScenario):
    """Design 000, removable plans, A to E: executors on one plan, and who cleans up."""

    name = "removable-execution"
    terms = PlanTerms(PlanPolicy.REMOVABLE)
    options = MappingProxyType({**_APPENDS, "hoodie.table.service.rollback.delay.minutes": 1})

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(spread_ms=2 * EXPIRY_MS),
            "y": self.executor(after_ms=EXPIRY_MS + 10_000),
            "cleaner": self.medic(after_ms=EXPIRY_MS + 500),
        }


class Cancelling(PlanScenario):
    """Design 001: the request races the commit, its execution races a new executor."""

    name = "cancelling"
    terms = PlanTerms(PlanPolicy.CANCELLABLE, cancel_hours=24.0)

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(),
            "y": self.executor(after_ms=EXPIRY_MS + 10_000),
            "c": self.canceller(after_ms=1_000, execute_after_ms=100),
        }


class YieldingToWrite(PlanScenario):
    """Writes replace what a cancellable compaction is about: one ends it, or follows it."""

    name = "yielding-to-write"
    terms = PlanTerms(PlanPolicy.CANCELLABLE, cancel_hours=24.0)

    overwrite: ClassVar[Write] = Write(2, ("a", "d"), operation="insert_overwrite")
    upsert: ClassVar[Write] = Write(3, ("a", "e"))

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(spread_ms=800),
            "w1": self.writer(self.overwrite),
            "w2": self.later(self.upsert, after_ms=300),
        }

    def _commit_times(
        self, env: Env, rows_by_key: Mapping[str, tuple[InstantTime, int]]
    ) -> dict[int, InstantTime]:
        before = (self.first, *self.past)
        commit_times = {write.v: self.ledger.acknowledgements[write.v] for write in before}
        return commit_times | committed_by_process(env, {"w1": self.overwrite, "w2": self.upsert})


# -- clustering -----------------------------------------------------------------------------------


class ClusteringScenario(PlanScenario):
    """The same with a clustering of two file groups; writes to them collide with it."""

    service = "clustering"
    table_type = "cow"
    past = (Write(1, ("a", "z")),)


class ClusteringExecution(ClusteringScenario, Execution):
    """Writes give way to the plan, as it is there to stay."""

    name = "clustering-execution"


class ClusteringTakeover(ClusteringScenario, Takeover):
    """The second executor comes when the first may count as dead."""

    name = "clustering-takeover"


class RemovableClustering(ClusteringScenario, RemovableExecution):
    """The same of a removable clustering."""

    name = "removable-clustering"


class CancellingClustering(ClusteringScenario, Cancelling):
    """A cancel races a clustering."""

    name = "cancelling-clustering"


class ClusteringYields(ClusteringScenario):
    """Updates of what a cancellable clustering is about: they end it, or come after it.

    A write that commits cancels it in the same decision. One that began before it was completed
    is refused, and done again on the new file groups.
    """

    name = "clustering-yields"
    terms = PlanTerms(PlanPolicy.CANCELLABLE, cancel_hours=24.0)

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(spread_ms=800),
            "w1": self.writer(Write(2, ("a", "d"))),
            "w2": self.later(Write(3, ("z", "e")), after_ms=300),
        }

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        if self.ledger.refusals and not outcome.errors and not outcome.script.faults:
            raise Violation(f"a write lost to a clustering that yields: {self.ledger.refusals}")


class ClusteringYieldsMor(ClusteringYields):
    """The same with log files."""

    name = "clustering-yields-mor"
    table_type = "mor"


class ClusteringBesidePreferred(ClusteringScenario):
    """A clustering that is there to stay, where writes are preferred: it waits for them."""

    name = "clustering-beside-preferred"
    options = MappingProxyType(
        {
            **_APPENDS,
            "hoodie.write.lock.conflict.resolution.strategy": "org.apache.hudi.client.transaction."
            "PreferWriterConflictResolutionStrategy",
        }
    )

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "x": self.executor(spread_ms=400),
            "y": self.executor(after_ms=500),
            "w": self.writer(Write(2, ("c", "d"))),
        }


# -- log compaction -------------------------------------------------------------------------------


class LogCompactionScenario(PlanScenario):
    """The same with a compaction of two log files into one."""

    service = "log_compaction"
    options = MappingProxyType({**_APPENDS, "hoodie.log.compaction.blocks.threshold": 2})
    past = (Write(1, ("a", "b")), Write(11, ("b", "c")))


class LogCompactionExecution(LogCompactionScenario, Execution):
    """Executors on one log compaction; writes append beside it."""

    name = "log-compaction-execution"


class LogCompactionTakeover(LogCompactionScenario, Takeover):
    """The second one comes when the first may count as dead."""

    name = "log-compaction-takeover"


class RemovableLogCompaction(LogCompactionScenario, RemovableExecution):
    """The same of a removable log compaction."""

    name = "removable-log-compaction"
    options = MappingProxyType({**LogCompactionScenario.options, **RemovableExecution.options})


class CancellingLogCompaction(LogCompactionScenario, Cancelling):
    """A cancel races a log compaction."""

    name = "cancelling-log-compaction"


class LogCompactionYields(LogCompactionScenario, YieldingToWrite):
    """Writes replace what a cancellable log compaction is about."""

    name = "log-compaction-yields"


SCENARIOS = (
    *(Execution, Takeover, RemovableExecution, Cancelling, YieldingToWrite),
    *(ClusteringExecution, ClusteringTakeover, RemovableClustering, CancellingClustering),
    *(ClusteringYields, ClusteringYieldsMor, ClusteringBesidePreferred),
    *(LogCompactionExecution, LogCompactionTakeover, RemovableLogCompaction),
    *(CancellingLogCompaction, LogCompactionYields),
)
