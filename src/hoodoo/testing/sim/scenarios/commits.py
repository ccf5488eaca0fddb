"""Writers, those who clean up after them, and everything that can come between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hoodoo.env import Clock, Env
from hoodoo.model import paths
from hoodoo.storage.traced import TracedStorage
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.schedule import FaultAt
from hoodoo.testing.sim.seeded import Chances
from hoodoo.testing.sim.stage import Settings
from hoodoo.testing.sim.tables import EXPIRY_MS, IN_FLIGHT_MS, LEASE_MS, TableScenario, Write
from hoodoo.testing.sim.world import Action, World

_DAY_MS = 86_400_000
_LOGS = {"hoodie.parquet.small.file.limit": 0}  # no inserts into base files: updates go to logs


class Insert(TableScenario):
    """One insert into a new file group, and one into a small file."""

    name = "insert"

    def actors(self) -> Mapping[str, Action]:
        return {"w": self.writer(Write(1, ("x", "y"), parts=("q",), operation="insert"))}


class Upsert(TableScenario):
    """One upsert that rewrites a file group."""

    name = "upsert"

    def actors(self) -> Mapping[str, Action]:
        return {"w": self.writer(Write(1, ("a", "x")))}


class UpsertMor(Upsert):
    """One upsert that appends to a file group, and adds a new one."""

    name = "upsert-mor"
    table_type = "mor"
    options = _LOGS


class UpsertBatched(Upsert):
    """The same with batched markers."""

    name = "upsert-batched-markers"
    options = MappingProxyType({"hoodie.write.markers.type": "timeline_server_based"})


class UpsertFileLock(Upsert):
    """The same with the filesystem lock."""

    name = "upsert-filesystem-lock"
    options = MappingProxyType({"hoodie.write.lock.provider": "filesystem"})


class Rollback(TableScenario):
    """A dead write, and one who rolls it back."""

    name = "rollback"

    def setup(self, world: World) -> None:
        super().setup(world)
        self._die(world)
        world.pass_time(2 * EXPIRY_MS)

    def _die(self, world: World) -> None:
        """A write that crashes when it is about to publish."""
        write = {"dead": self.writer(Write(1, ("a", "x")))}
        world.play(write, FaultAt("dead", paths.HEAD, Fault(Kind.CRASH_BEFORE)))

    def actors(self) -> Mapping[str, Action]:
        return {"medic": self.medic()}


class RollbackMor(Rollback):
    """The same on a merge-on-read table."""

    name = "rollback-mor"
    table_type = "mor"
    options = _LOGS


class SameGroup(TableScenario):
    """Two writers on the same file group."""

    name = "same-group"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "x"))),
            "w2": self.writer(Write(2, ("b", "x"))),
        }


class SameGroupMor(SameGroup):
    """The same on a merge-on-read table."""

    name = "same-group-mor"
    table_type = "mor"
    options = _LOGS


class Apart(TableScenario):
    """Two writers in different partitions."""

    name = "apart"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("x",), parts=("q",)), Write(3, ("x", "y"), parts=("q",))),
            "w2": self.writer(Write(2, ("z",), parts=("r",)), Write(4, ("a",))),
        }


class Cleaner(TableScenario):
    """A writer whose heartbeat may expire, and one who rolls back what is dead."""

    name = "cleaner"
    chances = Chances(
        {Kind.PAUSE: 0.03, Kind.CRASH_BEFORE: 0.005, Kind.STRAGGLER: 0.005}, pause_ms=400_000
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w": self.writer(Write(1, ("a", "x")), Write(2, ("b", "y"))),
            "medic": self.medic(after_ms=EXPIRY_MS // 2),
            "late": self.medic(after_ms=3 * EXPIRY_MS),
        }


class CleanerMor(Cleaner):
    """The same on a merge-on-read table."""

    name = "cleaner-mor"
    table_type = "mor"
    options = _LOGS


class TwoMedics(Rollback):
    """A dead write and a dead rollback, a writer, and two who want to mend at the same time."""

    name = "two-medics"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w": self.writer(Write(2, ("b", "y"))),
            "m1": self.medic(),
            "m2": self.medic(),
        }


class DeadRollback(Rollback):
    """A rollback that died, and two who want to finish it."""

    name = "dead-rollback"

    def setup(self, world: World) -> None:
        super().setup(world)
        world.play({"first": self.medic()}, FaultAt("first", ".parquet", Fault(Kind.CRASH_BEFORE)))
        world.pass_time(2 * EXPIRY_MS)

    def actors(self) -> Mapping[str, Action]:
        return {"m1": self.medic(), "m2": self.medic()}


class LeaseLoss(TableScenario):
    """A writer that may pause in the gate until its lease, and its heartbeat, are gone."""

    name = "lease-loss"
    chances = Chances(
        {Kind.PAUSE: 0.06, Kind.SLOW_RESPONSE: 0.02, Kind.JUMP: 0.02},
        at_most=4,
        pause_ms=400_000,
        delay_ms=200_000,
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "x"))),
            "w2": self.writer(Write(2, ("a", "b"))),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
        }


class LateRequests(LeaseLoss):
    """Requests of the protocol that land however late: a minute, an hour, a day.

    Data files are under the limit: those that land after the last sweep, nobody can know of.
    """

    name = "late-requests"
    settings = Settings(
        in_flight_ms=IN_FLIGHT_MS, no_limit_below=f"{paths.META}/", most_steps=200_000
    )
    chances = Chances(
        dict.fromkeys((Kind.SLOW_REQUEST, Kind.STRAGGLER, Kind.CRASH_IN_FLIGHT), 0.03),
        at_most=4,
        delay_ms=_DAY_MS,
    )


class DayLong(LateRequests):
    """Processes that stand still for up to a day, and then send what they were about to send."""

    name = "day-long"
    chances = Chances({Kind.PAUSE: 0.05, Kind.SLOW_RESPONSE: 0.02}, pause_ms=_DAY_MS)

    def actors(self) -> Mapping[str, Action]:
        return {**super().actors(), "late": self.later(Write(3, ("b", "y")), after_ms=_DAY_MS)}


class Outage(TableScenario):
    """Answers that get lost, with an outage after them; interrupts; and one who reads on."""

    name = "outage"
    settings = Settings(in_flight_ms=IN_FLIGHT_MS, no_limit_below=f"{paths.META}/")
    chances = Chances(
        {
            **dict.fromkeys((Kind.OUTAGE, Kind.OUTAGE_LOST, Kind.OUTAGE_LATE), 0.02),
            Kind.INTERRUPT: 0.02,
        },
        delay_ms=300_000,
        spared=frozenset({"reader"}),
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "x")), Write(3, ("c", "z"))),
            "w2": self.writer(Write(2, ("a", "y"))),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
            "reader": self.reader(),
        }


class OutageMor(Outage):
    """The same on a merge-on-read table."""

    name = "outage-mor"
    table_type = "mor"
    options = _LOGS


class InFlight(TableScenario):
    """A writer that dies with its last request under way, and those who find it dead."""

    name = "in-flight"
    chances = Chances(
        {Kind.CRASH_IN_FLIGHT: 0.03, Kind.PAUSE: 0.02}, pause_ms=LEASE_MS, delay_ms=IN_FLIGHT_MS
    )

    def actors(self) -> Mapping[str, Action]:
        write = self.writer(Write(1, ("a", "x")))
        medics = {f"m{n}": self.medic(after_ms=EXPIRY_MS + 4_000 * n) for n in range(4)}
        return {"w": lambda env: write(_silent(env, ".marker.", sleep_s=25)), **medics}


class InTheWay(TableScenario):
    """Writers that may die with their last request under way, on the same file groups."""

    name = "in-the-way"
    chances = Chances(
        {Kind.CRASH_IN_FLIGHT: 0.04, Kind.PAUSE: 0.02, Kind.SLOW_REQUEST: 0.02},
        pause_ms=IN_FLIGHT_MS,
        delay_ms=IN_FLIGHT_MS,
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "x1", "x2"), ("p", "q"))),
            "w2": self.writer(Write(2, ("b", "y1", "y2"), ("p", "q"))),
        }


class Zombie(TableScenario):
    """A writer without a heartbeat goes on writing files while it is rolled back."""

    name = "zombie"
    table_type = "mor"
    options = _LOGS
    chances = Chances({Kind.CRASH_BEFORE: 0.01}, at_most=1)

    def actors(self) -> Mapping[str, Action]:
        parts = tuple("pqrstu")
        write = self.writer(Write(1, ("a", "x1", "x2", "x3", "x4"), parts))

        def writer(env: Env) -> object:
            sleep_s = EXPIRY_MS / 1000 + 9 + env.ids.jitter()
            return write(_silent(env, f"part={parts[-1]}/", sleep_s=sleep_s))

        return {"w": writer, "medic": self.medic(after_ms=EXPIRY_MS + 9_500)}


def _silent(env: Env, part: str, *, sleep_s: float) -> Env:
    """Without a heartbeat that beats, and asleep once, when it comes to this part of a path."""
    awake = False

    def before(verb: str, path: str) -> None:
        nonlocal awake
        if part in path and not awake:
            awake = True
            env.clock.sleep(sleep_s)

    slow = TracedStorage(env.storage, before=before)
    return replace(env, storage=slow, clock=_WithoutTimers(env.clock))


class _WithoutTimers:
    """A clock whose timers never come."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms, self.monotonic, self.sleep = clock.now_ms, clock.monotonic, clock.sleep
        self.local_ms, self.line = clock.local_ms, clock.line

    def every(self, interval_ms: int, step: Callable[[], None]) -> _WithoutTimers:
        return self

    def stop(self) -> None:
        """There is nothing to stop."""


class SameKey(TableScenario):
    """Two writers that insert the same new key."""

    name = "same-key"
    options = _LOGS

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("new", "x"))),
            "w2": self.writer(Write(2, ("new", "y"))),
        }


SCENARIOS = (
    Insert,
    Upsert,
    UpsertMor,
    UpsertBatched,
    UpsertFileLock,
    Rollback,
    RollbackMor,
    SameGroup,
    SameGroupMor,
    Apart,
    Cleaner,
    CleanerMor,
    TwoMedics,
    DeadRollback,
    LeaseLoss,
    LateRequests,
    DayLong,
    Outage,
    OutageMor,
    InFlight,
    InTheWay,
    Zombie,
    SameKey,
)
