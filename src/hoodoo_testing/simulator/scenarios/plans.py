"""What depends on the order of commits: plans of compactions, and incremental reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from hoodoo.concurrency.transactions.gate import request_plan
from hoodoo.concurrency.transactions.transaction import new_time, transaction
from hoodoo.errors import HoodooError
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.files import FileSlice
from hoodoo.model.instant import Action as InstantAction
from hoodoo.model.instant import InstantTime
from hoodoo.model.plans import CompactionOperation, CompactionPlan
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.env import Env
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.actors.tables import IN_FLIGHT_MS, OPTIONS, TableScenario, Write
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.world.faults import FaultKind
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Settings, Violation
from hoodoo_testing.simulator.world.world import ActorAction, World

_LATE = Settings(in_flight_ms=IN_FLIGHT_MS, no_limit_below=f"{paths.META}/")
_LATE_CHANCES = Chances(
    {
        **dict.fromkeys((FaultKind.PAUSE, FaultKind.SLOW_REQUEST, FaultKind.STRAGGLER), 0.02),
        **dict.fromkeys(
            (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.JUMP, FaultKind.OUTAGE), 0.005
        ),
    },
    pause_ms=400_000,
    delay_ms=400_000,
    jump_ms=6 * 3_600_000,
    spared_processes=frozenset({"follower"}),
)


class Planning(TableScenario):
    """A compaction is planned while others append to the file group that it is about."""

    name = "planning"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})
    settings = _LATE
    chances = _LATE_CHANCES

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a",)), Write(3, ("c",))),
            "w2": self.writer(Write(2, ("b",))),
            "planner": self._plan,
        }

    def _plan(self, env: Env) -> None:
        ref = self.table(env)._ref
        env.clock.sleep(2 * env.ids.jitter())
        with transaction(ref, "compaction") as txn:

            def plan() -> tuple[InstantTime, bytes]:
                slices = take_snapshot(ref, timeline=txn.timeline).slices()
                operations = tuple(_operation(slice_) for slice_ in slices if slice_.logs)
                return new_time(txn), codec.encode(CompactionPlan(operations=operations))

            schedule(txn, InstantAction.COMPACTION, env.ids.uuid(), plan)


schedule = request_plan
"""How a plan gets on the timeline; a name of its own, which tests replace."""


def _operation(slice_: FileSlice) -> CompactionOperation:
    assert slice_.base is not None
    return CompactionOperation(
        base_instant_time=slice_.base.name.requested_time,
        delta_file_paths=tuple(str(log.name) for log in slice_.logs),
        data_file_path=str(slice_.base.name),
        file_id=slice_.group.file_id,
        partition_path=slice_.group.partition,
    )


class Following(TableScenario):
    """One who reads what changed, again and again, beside writers on the same file group."""

    name = "following"
    settings = _LATE
    chances = _LATE_CHANCES
    reads = 10

    def __init__(self) -> None:
        super().__init__()
        self._seen: Counter[str] = Counter()
        self._last: InstantTime | None = None

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x")), Write(3, ("y",), parts=("q",))),
            "w2": self.writer(Write(2, ("z",), parts=("q",)), Write(4, ("a",))),
            "follower": self._follow,
        }

    def _follow(self, env: Env) -> None:
        for number in range(self.reads):
            try:
                self._read_on(env)
            except HoodooError:
                continue
            finally:
                env.clock.sleep(0.15 * 2**number * env.ids.jitter())

    def _read_on(self, env: Env) -> None:
        """Read what was completed since the last time, up to the newest commit there is."""
        timeline = open_ref(env.storage.uri, OPTIONS, env).load_timeline().commits
        since = self._last or self.ledger.acknowledgements[self.first.v]
        until = max(instant.completion_or_requested_time for instant in timeline)
        if until <= since:
            return
        read = self.table(env).changes(since=since, until=until, columns=["id"])
        self._last = until
        self._seen.update(key for key in read.column("id").to_pylist() if "witness" in key)

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        world.do("follower", self._read_on)
        for v, write in self.ledger.writes.items():
            count = self._seen[write.witness]
            if v != self.first.v and v in self.ledger.acknowledgements and count != 1:
                raise Violation(f"write {v} was read {count} times by one who reads on")
            if count > 1:
                raise Violation(f"write {v} was read twice by one who reads on")


class FollowingMor(Following):
    """The same on a merge-on-read table."""

    name = "following-mor"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


SCENARIOS = (Planning, Following, FollowingMor)
