"""Writers, those who clean up after them, and everything that can come between."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.schedule import Script
from hoodoo.testing.sim.seeded import Chances
from hoodoo.testing.sim.tables import EXPIRY_MS, TableScenario, Write
from hoodoo.testing.sim.world import Action, World


class Insert(TableScenario):
    """One insert into a new file group, and one into a small file."""

    name = "insert"

    def actors(self) -> Mapping[str, Action]:
        return {"w": self.writer(Write(1, ("x", "y"), part="q", operation="insert"))}


class Upsert(TableScenario):
    """One upsert that rewrites a file group."""

    name = "upsert"

    def actors(self) -> Mapping[str, Action]:
        return {"w": self.writer(Write(1, ("a", "x")))}


class UpsertMor(Upsert):
    """One upsert that appends to a file group, and adds a new one."""

    name = "upsert-mor"
    table_type = "mor"


class UpsertBatched(Upsert):
    """The same with batched markers."""

    name = "upsert-batched-markers"
    options = {"hoodie.write.markers.type": "timeline_server_based"}


class UpsertFileLock(Upsert):
    """The same with the filesystem lock."""

    name = "upsert-filesystem-lock"
    options = {"hoodie.write.lock.provider": "filesystem"}


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
        world.play(write, _CrashAt("dead", "claims"))

    def actors(self) -> Mapping[str, Action]:
        return {"medic": self.medic()}


class RollbackMor(Rollback):
    """The same on a merge-on-read table."""

    name = "rollback-mor"
    table_type = "mor"


class _CrashAt(Script):
    """Crashes an actor when it comes to a path."""

    def __init__(self, actor: str, part: str) -> None:
        super().__init__()
        object.__setattr__(self, "_at", (actor, part))

    def fault(self, operation):  # type: ignore[no-untyped-def] # as in Script
        actor, part = self._at  # type: ignore[attr-defined]
        if operation.actor == actor and part in operation.path:
            return Fault(Kind.CRASH_BEFORE)
        return None


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


class Apart(TableScenario):
    """Two writers in different partitions."""

    name = "apart"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("x",), part="q"), Write(3, ("x", "y"), part="q")),
            "w2": self.writer(Write(2, ("z",), part="r"), Write(4, ("a",))),
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
        world.play({"first": self.medic()}, _CrashAt("first", ".parquet"))
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


class SameKey(TableScenario):
    """Two writers that insert the same new key, with the key guard on."""

    name = "same-key"
    options = {
        "hoodie.write.concurrency.key.guard.enable": True,
        "hoodie.parquet.small.file.limit": 0,
    }

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
    SameKey,
)
