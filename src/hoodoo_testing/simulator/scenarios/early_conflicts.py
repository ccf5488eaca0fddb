"""Early conflict detection: slow writers on the same file groups, by every strategy.

Each writer sleeps before each of its files, so that a write takes several periods. What a write
fails with is kept, with the time; the trace tells when it began, announced and ended its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from hoodoo.api.table import Table
from hoodoo.config.concurrency import (
    EARLY_DELAY_MS,
    EARLY_DETECTION,
    EARLY_PERIOD_MS,
    EARLY_STRATEGY,
    DetectionStrategy,
)
from hoodoo.errors import EarlyConflict, StorageError, WriteConflict
from hoodoo.runtime.engine import Item, LocalEngine, Result, StopSignal
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.actors.tables import OPTIONS, TableScenario, Write
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.world.stage import START_MS, Violation
from hoodoo_testing.simulator.world.trace import process_of
from hoodoo_testing.simulator.world.world import ActorAction, World

PERIOD_MS = 1_000
SLACK_MS = 400
"""What the operations of one look take, others' in between."""
_MARKER = re.compile(r"\.hoodie/\.temp/(\d+)/")
_PARTS = ("p", "q", "r")
_ON: Mapping[str, object] = MappingProxyType(
    {
        EARLY_DETECTION.name: True,
        EARLY_PERIOD_MS.name: PERIOD_MS,
        "hoodie.write.num.retries.on.conflict.failures": 0,
        "hoodie.parquet.small.file.limit": 0,
    }
)
LATER: Mapping[str, object] = MappingProxyType({EARLY_DELAY_MS.name: 1})
"""The begin does not look, so that tasks and the driver have to find a conflict."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A conflict that a write failed with, and when, in ms since the begin of the run."""

    process: str
    conflict: WriteConflict
    at_ms: int

    @property
    def is_early(self) -> bool:
        return isinstance(self.conflict, EarlyConflict)


class SlowEngine(LocalEngine):
    """Each file takes its time before it is made."""

    def __init__(self, env: Env, slowest_s: float) -> None:
        super().__init__(threads=1)
        self._env = env
        self._slowest_s = slowest_s

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        def run(item: Item) -> Result:
            if stop is not None and self._slowest_s:
                self._env.clock.sleep(self._slowest_s * self._env.ids.jitter())
                stop.check()
            return task(item)

        return super().map(run, items, stop=stop, report_count=report_count)


class EarlyScenario(TableScenario):
    """Slow writers, and what each of them failed with."""

    strategy: ClassVar[DetectionStrategy] = DetectionStrategy.SIMPLE_DIRECT
    slowest_s: ClassVar[float] = 2.5
    """How long a file takes at most."""
    first: ClassVar[Write] = Write(0, ("a", "b", "c"), parts=_PARTS)

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[Failure] = []
        self._world: World | None = None

    def setup(self, world: World) -> None:
        super().setup(world)
        self._world = world

    def table(self, env: Env, **options: object) -> Table:
        """The table as a process opens it that is slow to write."""
        strategy = {EARLY_STRATEGY.name: self.strategy.value}
        all_options = {**OPTIONS, **_ON, **strategy, **self.options, **options}
        return Table(open_ref(env.storage.uri, all_options, env), SlowEngine(env, self.slowest_s))

    def _write(self, table: Table, write: Write) -> None:
        process = table._ref.env.ids.process().host
        do = getattr(table, write.operation)

        def record_conflict(rows: object) -> object:
            try:
                return do(rows)
            except WriteConflict as conflict:
                assert self._world is not None
                at_ms = self._world.now_ms - START_MS
                self.failures.append(Failure(process, conflict, at_ms))
                raise

        super()._write(_TableWithMethod(table, write.operation, record_conflict), write)  # type: ignore[arg-type]  # has the one method that is called

    # -- what must hold -----------------------------------------------------------------------

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        marker_times = _marker_times(outcome)
        ends = _ends_of_files(outcome)
        start_times = _start_times(outcome)
        for failure in self.failures:
            self._refuse_false_alarm(failure, start_times)
            if not failure.is_early and not outcome.script.faults:
                self._refuse_late(failure, marker_times, ends)
        if not outcome.script.faults and not outcome.errors:
            mine = {v for v in self.ledger.writes if v not in (self.first.v, 999)}
            if not mine & self.ledger.acknowledgements.keys():
                raise Violation(f"all gave way: {self.ledger.refusals}")

    def _refuse_false_alarm(self, failure: Failure, start_times: Mapping[str, int]) -> None:
        """Whom a write gave way to had begun before it failed, and touches the same file groups."""
        if not failure.conflict.file_groups:
            raise Violation(f"a conflict about nothing: {failure.conflict}")
        for other in failure.conflict.conflicting_instants:
            if start_times.get(other, failure.at_ms) >= failure.at_ms:
                raise Violation(f"{other} had not begun: {failure.conflict}")

    def _refuse_late(
        self,
        failure: Failure,
        marker_times: Mapping[str, Mapping[str, int]],
        ends: Mapping[str, int],
    ) -> None:
        """The gate found it: it must not have stood for a whole period while files were made."""
        mine, end_ms = failure.conflict.instant, ends.get(failure.process)
        if mine is None or end_ms is None:
            return  # it failed at the begin
        own = marker_times.get(failure.process, {}).get(mine)
        for other in failure.conflict.conflicting_instants:
            theirs = [times[other] for times in marker_times.values() if other in times]
            if own is None or not theirs or other > mine:
                continue
            stood_ms = end_ms - max(own, min(theirs))
            if stood_ms >= PERIOD_MS + SLACK_MS:
                raise Violation(f"stood for {stood_ms} ms and was missed: {failure.conflict}")


@dataclass(frozen=True)
class _TableWithMethod:
    """A table of which one method is another one."""

    _table: Table
    _name: str
    _do: Callable[[object], object]

    def __getattr__(self, name: str) -> object:
        return self._do if name == self._name else getattr(self._table, name)


def _marker_times(outcome: RunOutcome) -> dict[str, dict[str, int]]:
    """When each process had announced its first file of each instant."""
    times_by_process: dict[str, dict[str, int]] = {}
    for step in outcome.steps:
        match = _MARKER.match(step.path)
        if match and step.verb in ("create", "put") and step.outcome.startswith("ok"):
            times = times_by_process.setdefault(process_of(step.actor), {})
            times.setdefault(match[1], step.at_ms)
    return times_by_process


def _start_times(outcome: RunOutcome) -> dict[str, int]:
    """When each instant was requested."""
    time_by_instant: dict[str, int] = {}
    for step in outcome.steps:
        name = step.path.rpartition("/")[2]
        if step.verb == "create" and name.endswith("requested") and step.outcome.startswith("ok"):
            time_by_instant.setdefault(name.partition(".")[0], step.at_ms)
    return time_by_instant


def _ends_of_files(outcome: RunOutcome) -> dict[str, int]:
    """When each process had made its last file."""
    time_by_process: dict[str, int] = {}
    for step in outcome.steps:
        is_made = step.as_operation().mutates and step.verb != "delete"
        if is_made and step.path.endswith(".parquet") and step.outcome.startswith("ok"):
            time_by_process[process_of(step.actor)] = step.at_ms
    return time_by_process


class TwoOnOneGroup(EarlyScenario):
    """Two writers, all of whose file groups are the same."""

    name = "early-two"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "b"), parts=("p", "q"))),
            "w2": self.later(Write(2, ("a", "b"), parts=("p", "q")), after_ms=300),
        }


class TwoByMarkers(TwoOnOneGroup):
    """The same, and the begin does not look."""

    name = "early-two-markers"
    options = LATER


class TwoAtOnce(EarlyScenario):
    """The same without any waiting: every step of one can come between two of the other."""

    name = "early-at-once"
    options = LATER
    slowest_s = 0.0

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a",), parts=("p",))),
            "w2": self.writer(Write(2, ("a",), parts=("p",))),
        }


class ThreeInARing(EarlyScenario):
    """Three writers, each of which shares a file group with each of the others."""

    name = "early-three"
    options = LATER

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "b"), parts=("p", "q"))),
            "w2": self.later(Write(2, ("b", "c"), parts=("q", "r")), after_ms=200),
            "w3": self.later(Write(3, ("c", "a"), parts=("r", "p")), after_ms=400),
        }


class EarlyApart(EarlyScenario):
    """Writers on different file groups: nobody may give way."""

    name = "early-apart"
    options = LATER

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a",), parts=("p",))),
            "w2": self.later(Write(2, ("b",), parts=("q",)), after_ms=200),
            "w3": self.later(Write(3, ("c",), parts=("r",)), after_ms=400),
        }

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        if self.failures:
            raise Violation(f"a false alarm: {self.failures[0].conflict}")


class EarlyRetry(EarlyScenario):
    """Losers wait for the winner and try again: in the end all have committed."""

    name = "early-retry"
    options = MappingProxyType({"hoodie.write.num.retries.on.conflict.failures": 6})

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "b"), parts=("p", "q"))),
            "w2": self.later(Write(2, ("a", "b"), parts=("p", "q")), after_ms=300),
            "w3": self.later(Write(3, ("b", "c"), parts=("q", "r")), after_ms=600),
        }

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        if self.failures and not outcome.script.faults:
            raise Violation(f"gave up: {self.failures[0].conflict}")


class UnreadableMarkers(TwoByMarkers):
    """The younger one cannot read the markers of the older one every other time."""

    name = "early-unreadable"
    options = MappingProxyType({**LATER, "hoodie.write.markers.type": "timeline_server_based"})

    def actors(self) -> Mapping[str, ActorAction]:
        slow = self.later(Write(2, ("a", "b"), parts=("p", "q")), after_ms=300)
        reads, oldest = 0, "9"

        def before(verb: str, path: str) -> None:
            nonlocal reads, oldest
            match = _MARKER.match(path)
            if verb == "read" and match and "/MARKERS" in path:
                oldest = min(oldest, match[1])
                reads += match[1] == oldest
                if match[1] == oldest and reads % 2:
                    raise StorageError(path, "someone writes to it")

        def half_blind(env: Env) -> object:
            storage = TracedStorage(env.storage, before=before)
            return slow(Env(storage, env.clock, env.ids))

        return {
            "w1": self.writer(Write(1, ("a", "b"), parts=("p", "q"))),
            "w2": half_blind,
        }


def _by_strategy(base: type[EarlyScenario]) -> list[type[EarlyScenario]]:
    """The scenario with each strategy."""
    return [
        type(
            f"{base.__name__}{strategy.name.title().replace('_', '')}",
            (base,),
            {
                "__doc__": base.__doc__,
                "name": f"{base.name}-{strategy.value.replace('_', '-')}",
                "strategy": strategy,
            },
        )
        for strategy in DetectionStrategy
    ]


SCENARIOS = (
    *_by_strategy(TwoOnOneGroup),
    *_by_strategy(TwoByMarkers),
    *_by_strategy(TwoAtOnce),
    *_by_strategy(ThreeInARing),
    *_by_strategy(EarlyApart),
    *_by_strategy(EarlyRetry),
    UnreadableMarkers,
)
