"""Plans of table services: executed, lost, taken over, cancelled; and writers beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from hoodoo.api import Table
from hoodoo.env import Env
from hoodoo.errors import (
    AlreadyCommitted,
    Cancelled,
    CancelNotRequested,
    NotCancellable,
    PlanInProgress,
    PlanNotExecutable,
    WriteConflict,
)
from hoodoo.format import json_object
from hoodoo.model import paths
from hoodoo.model.attempt import GOES_FIRST, AbortedPlan
from hoodoo.model.instant import Instant, InstantTime, State, is_instant_time
from hoodoo.model.plan import PlanPolicy
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.services.clustering import schedule_clustering
from hoodoo.services.compaction import schedule_compaction
from hoodoo.services.log_compaction import schedule_log_compaction
from hoodoo.services.rewrite import ServiceResult
from hoodoo.testing.sim.scenario import Outcome
from hoodoo.testing.sim.scenarios.overwrites import committed_by_process
from hoodoo.testing.sim.stage import Violation
from hoodoo.testing.sim.tables import EXPIRY_MS, TableScenario, Write
from hoodoo.testing.sim.truth import look
from hoodoo.testing.sim.world import Action, World

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
    def prepared(self) -> object:
        return (self.past, self.service, self.terms)

    def prepare(self, env: Env) -> None:
        """The other writes, and the plan."""
        table = self.table(env)
        for write in self.past:
            table.upsert(write.rows())
        assert _SCHEDULE[self.service](table._ref, terms=self.terms) is not None

    def setup(self, world: World) -> None:
        super().setup(world)
        truth = look(world.storage)
        for write, instant in zip(self.past, truth.completed[1:], strict=True):
            self.ledger.writes[write.v] = write
            self.ledger.acknowledged[write.v] = instant.requested_time
        (self.plan,) = truth.plans

    def run_plan(self, table: Table) -> ServiceResult:
        """Execute the plan."""
        run: Callable[[str], ServiceResult] = getattr(table, f"run_{self.service}")
        return run(self.plan)

    # -- actors -------------------------------------------------------------------------------

    def executor(self, *, after_ms: int = 0, spread_ms: int = 0, tries: int = 1) -> Action:
        """An actor that executes the plan, and tries again after a while."""

        def act(env: Env) -> None:
            for _ in range(tries):
                env.clock.sleep((after_ms + spread_ms * env.ids.jitter()) / 1000)
                self.execute(env)

        return act

    def execute(self, env: Env) -> None:
        """Execute the plan, unless that is refused for a reason that there is."""
        try:
            done = self.run_plan(self.table(env))
        except (PlanInProgress, PlanNotExecutable, Cancelled, WriteConflict):
            return
        if not done.was_done:
            self.completed_by.append(env.ids.process().host)

    def canceller(self, *, after_ms: int = 0, execute_after_ms: int = 0) -> Action:
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

    def check(self, world: World, outcome: Outcome) -> None:
        super().check(world, outcome)
        truth = look(world.storage)
        states = {i.state for i in truth.instants if i.requested_time == self.plan}
        if len(self.completed_by) > 1:
            raise Violation(f"plan {self.plan} was completed by {self.completed_by}")
        if self.completed_by and State.COMPLETED not in states:
            raise Violation(f"plan {self.plan} was said to be completed, and is not")
        if self.is_cancelled and State.COMPLETED in states:
            raise Violation(f"plan {self.plan} was cancelled, and is completed")
        if State.ABORTED in states and len(states) > 1:
            raise Violation(f"plan {self.plan} is aborted, and also {states}")
        has_record = world.storage.exists(paths.aborted(self.plan))
        if has_record != (State.ABORTED in states):
            raise Violation(f"plan {self.plan}: record {has_record}, states {states}")
        if has_record:
            self._check_reason(world, completed={i.requested_time for i in truth.completed})
        left = [entry.path for entry in world.storage.list(paths.CANCELS)]
        if left:
            raise Violation(f"cancel requests are left: {left}")
        if states and not states & {State.COMPLETED, State.ABORTED}:
            raise Violation(f"plan {self.plan} is stuck: {states}")

    def _check_reason(self, world: World, completed: set[InstantTime]) -> None:
        """A write that ended the plan is committed: one that was refused ends nothing."""
        data = world.storage.read(paths.aborted(self.plan))
        first, _, _ = json_object.decode(data, AbortedPlan).reason.partition(GOES_FIRST)
        if is_instant_time(first) and first not in completed:
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
            except Cancelled:
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

    def actors(self) -> Mapping[str, Action]:
        return {
            "x": self.executor(),
            "y": self.executor(after_ms=500),
            "w": self.writer(Write(2, ("a", "d"))),
        }


class Takeover(PlanScenario):
    """The same; the second executor comes when the first may count as dead."""

    name = "takeover"

    def actors(self) -> Mapping[str, Action]:
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

    def actors(self) -> Mapping[str, Action]:
        return {
            "x": self.executor(spread_ms=2 * EXPIRY_MS),
            "y": self.executor(after_ms=EXPIRY_MS + 10_000),
            "cleaner": self.medic(after_ms=EXPIRY_MS + 500),
        }


class Cancelling(PlanScenario):
    """Design 001: the request races the commit, its execution races a new executor."""

    name = "cancelling"
    terms = PlanTerms(PlanPolicy.CANCELLABLE, cancel_hours=24.0)

    def actors(self) -> Mapping[str, Action]:
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

    def actors(self) -> Mapping[str, Action]:
        return {
            "x": self.executor(spread_ms=800),
            "w1": self.writer(self.overwrite),
            "w2": self.later(self.upsert, after_ms=300),
        }

    def _committed(
        self, env: Env, found: Mapping[str, tuple[InstantTime, int]]
    ) -> dict[int, InstantTime]:
        before = (self.first, *self.past)
        told = {write.v: self.ledger.acknowledged[write.v] for write in before}
        return told | committed_by_process(env, {"w1": self.overwrite, "w2": self.upsert})


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

    def actors(self) -> Mapping[str, Action]:
        return {
            "x": self.executor(spread_ms=800),
            "w1": self.writer(Write(2, ("a", "d"))),
            "w2": self.later(Write(3, ("z", "e")), after_ms=300),
        }

    def check(self, world: World, outcome: Outcome) -> None:
        super().check(world, outcome)
        if self.ledger.refused and not outcome.errors and not outcome.script.faults:
            raise Violation(f"a write lost to a clustering that yields: {self.ledger.refused}")


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

    def actors(self) -> Mapping[str, Action]:
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
