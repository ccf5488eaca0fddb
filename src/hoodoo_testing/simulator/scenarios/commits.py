"""Writers, those who clean up after them, and everything that can come between.

In the last ones two processes send the same batch until it is committed, which happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hoodoo.api.table import Table
from hoodoo.errors import HoodooError
from hoodoo.model import paths
from hoodoo.runtime.env import Clock, Env
from hoodoo.storage.traced import TracedStorage
from hoodoo_testing.simulator.actors.tables import (
    EXPIRY_MS,
    IN_FLIGHT_MS,
    LEASE_MS,
    TableScenario,
    Write,
)
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import Chances, FaultAt
from hoodoo_testing.simulator.world.stage import Settings, Violation
from hoodoo_testing.simulator.world.world import ActorAction, World

# -- writers and failures --------------------------------------------------------------------------


_DAY_MS = 86_400_000
_LOGS = {"hoodie.parquet.small.file.limit": 0}  # no inserts into base files: updates go to logs


class Insert(TableScenario):
    """One insert into a new file group, and one into a small file."""

    name = "insert"

    def actors(self) -> Mapping[str, ActorAction]:
        return {"w": self.writer(Write(1, ("x", "y"), parts=("q",), operation="insert"))}


class Upsert(TableScenario):
    """One upsert that rewrites a file group."""

    name = "upsert"

    def actors(self) -> Mapping[str, ActorAction]:
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
        world.play(write, FaultAt("dead", paths.HEAD, Fault(FaultKind.CRASH_BEFORE)))

    def actors(self) -> Mapping[str, ActorAction]:
        return {"medic": self.medic()}


class RollbackMor(Rollback):
    """The same on a merge-on-read table."""

    name = "rollback-mor"
    table_type = "mor"
    options = _LOGS


class SameGroup(TableScenario):
    """Two writers on the same file group."""

    name = "same-group"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x"))),
            "w2": self.writer(Write(2, ("b", "x"))),
        }


class SameGroupMor(SameGroup):
    """The same on a merge-on-read table."""

    name = "same-group-mor"
    table_type = "mor"
    options = _LOGS


class DifferentPartitions(TableScenario):
    """Two writers in different partitions."""

    name = "apart"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("x",), parts=("q",)), Write(3, ("x", "y"), parts=("q",))),
            "w2": self.writer(Write(2, ("z",), parts=("r",)), Write(4, ("a",))),
        }


class Cleaner(TableScenario):
    """A writer whose heartbeat may expire, and one who rolls back what is dead."""

    name = "cleaner"
    chances = Chances(
        {FaultKind.PAUSE: 0.03, FaultKind.CRASH_BEFORE: 0.005, FaultKind.STRAGGLER: 0.005},
        pause_ms=400_000,
    )

    def actors(self) -> Mapping[str, ActorAction]:
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


class TwoRecoveries(Rollback):
    """A dead write and a dead rollback, a writer, and two who want to mend at the same time."""

    name = "two-medics"

    def actors(self) -> Mapping[str, ActorAction]:
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
        world.play(
            {"first": self.medic()}, FaultAt("first", ".parquet", Fault(FaultKind.CRASH_BEFORE))
        )
        world.pass_time(2 * EXPIRY_MS)

    def actors(self) -> Mapping[str, ActorAction]:
        return {"m1": self.medic(), "m2": self.medic()}


class LeaseLoss(TableScenario):
    """A writer that may pause in the gate until its lease, and its heartbeat, are gone."""

    name = "lease-loss"
    chances = Chances(
        {FaultKind.PAUSE: 0.06, FaultKind.SLOW_RESPONSE: 0.02, FaultKind.JUMP: 0.02},
        at_most=4,
        pause_ms=400_000,
        delay_ms=200_000,
    )

    def actors(self) -> Mapping[str, ActorAction]:
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
        dict.fromkeys(
            (FaultKind.SLOW_REQUEST, FaultKind.STRAGGLER, FaultKind.CRASH_IN_FLIGHT), 0.03
        ),
        at_most=4,
        delay_ms=_DAY_MS,
    )


class DayLong(LateRequests):
    """Processes that stand still for up to a day, and then send what they were about to send."""

    name = "day-long"
    chances = Chances({FaultKind.PAUSE: 0.05, FaultKind.SLOW_RESPONSE: 0.02}, pause_ms=_DAY_MS)

    def actors(self) -> Mapping[str, ActorAction]:
        return {**super().actors(), "late": self.later(Write(3, ("b", "y")), after_ms=_DAY_MS)}


class Outage(TableScenario):
    """Answers that get lost, with an outage after them; interrupts; and one who reads on."""

    name = "outage"
    settings = Settings(in_flight_ms=IN_FLIGHT_MS, no_limit_below=f"{paths.META}/")
    chances = Chances(
        {
            **dict.fromkeys((FaultKind.OUTAGE, FaultKind.OUTAGE_LOST, FaultKind.OUTAGE_LATE), 0.02),
            FaultKind.INTERRUPT: 0.02,
        },
        delay_ms=300_000,
        spared_processes=frozenset({"reader"}),
    )

    def actors(self) -> Mapping[str, ActorAction]:
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
        {FaultKind.CRASH_IN_FLIGHT: 0.03, FaultKind.PAUSE: 0.02},
        pause_ms=LEASE_MS,
        delay_ms=IN_FLIGHT_MS,
    )

    def actors(self) -> Mapping[str, ActorAction]:
        write = self.writer(Write(1, ("a", "x")))
        medics = {f"m{n}": self.medic(after_ms=EXPIRY_MS + 4_000 * n) for n in range(4)}
        return {"w": lambda env: write(_silent(env, ".marker.", sleep_s=25)), **medics}


class InTheWay(TableScenario):
    """Writers that may die with their last request under way, on the same file groups."""

    name = "in-the-way"
    chances = Chances(
        {FaultKind.CRASH_IN_FLIGHT: 0.04, FaultKind.PAUSE: 0.02, FaultKind.SLOW_REQUEST: 0.02},
        pause_ms=IN_FLIGHT_MS,
        delay_ms=IN_FLIGHT_MS,
    )

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x1", "x2"), ("p", "q"))),
            "w2": self.writer(Write(2, ("b", "y1", "y2"), ("p", "q"))),
        }


class Zombie(TableScenario):
    """A writer without a heartbeat goes on writing files while it is rolled back."""

    name = "zombie"
    table_type = "mor"
    options = _LOGS
    chances = Chances({FaultKind.CRASH_BEFORE: 0.01}, at_most=1)

    def actors(self) -> Mapping[str, ActorAction]:
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

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("new", "x"))),
            "w2": self.writer(Write(2, ("new", "y"))),
        }


_COMMITS = (
    Insert,
    Upsert,
    UpsertMor,
    UpsertBatched,
    UpsertFileLock,
    Rollback,
    RollbackMor,
    SameGroup,
    SameGroupMor,
    DifferentPartitions,
    Cleaner,
    CleanerMor,
    TwoRecoveries,
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


# -- the same batch from two processes -------------------------------------------------------------


_TRIES = 3


class SameBatch(TableScenario):
    """Inserts, which do not look for keys: a second commit would have every row twice."""

    name = "same-batch"
    batch = Write(1, ("x", "y"), parts=("q",), operation="insert")

    def actors(self) -> Mapping[str, ActorAction]:
        self.ledger.writes[self.batch.v] = self.batch
        return {"w1": self._send, "w2": self._send}

    def _send(self, env: Env) -> None:
        """Send the batch until it is answered, whatever goes wrong."""
        for _ in range(_TRIES):
            try:
                self._write_once(self.table(env))
            except HoodooError:  # also one that does not tell whether it is committed
                env.clock.sleep(EXPIRY_MS / 1000)
            else:
                return

    def _write_once(self, table: Table) -> None:
        write = getattr(table, self.batch.operation)
        result = write(self.batch.rows(), transaction=("app", 1))
        first_instant = self.ledger.acknowledgements.setdefault(self.batch.v, result.instant)
        if first_instant != result.instant:
            raise Violation(
                f"the batch was acknowledged as {first_instant} and as {result.instant}"
            )


class SameBatchUpsert(SameBatch):
    """Upserts of one file group, which are in conflict with each other as well."""

    name = "same-batch-upsert"
    batch = Write(1, ("a", "x"))


_BATCHES = (SameBatch, SameBatchUpsert)

SCENARIOS = (*_COMMITS, *_BATCHES)
