"""hoodoo beside an engine that knows the lock, and no head."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from hoodoo.concurrency.locks import hold_lock
from hoodoo.env import Env
from hoodoo.errors import HoodooError
from hoodoo.testing.sim.faults import Kind
from hoodoo.testing.sim.foreign import ForeignEngine, ForeignRefused
from hoodoo.testing.sim.seeded import Chances
from hoodoo.testing.sim.stage import Settings
from hoodoo.testing.sim.tables import EXPIRY_MS, LEASE_MS, TableScenario, Write
from hoodoo.testing.sim.world import Action, World

_SPARED = frozenset({"hudi", "hudi2"})
"""It holds its lock as long as it needs it, and hears the answers that it gets."""


class Mixed(TableScenario):
    """A table that another engine writes to as well."""

    is_mixed: ClassVar[bool] = True
    settings = Settings(in_flight_ms=LEASE_MS // 4)
    """A request of a writer that died over it must land before its lease ends: nobody could take
    back what lands later, and the other engine does not ask for it."""

    def engine(self, env: Env) -> ForeignEngine:
        return ForeignEngine(self.table(env)._ref, EXPIRY_MS)

    def foreign_writer(self, write: Write, *, after_ms: int = 0) -> Action:
        """An actor of the other engine that does one write, as often as it must."""
        self.ledger.writes[write.v] = write

        def act(env: Env) -> None:
            env.clock.sleep(after_ms / 1000 * env.ids.jitter())
            for _ in range(4):
                try:
                    done = self.engine(env).upsert(write.rows(), partition=f"part={write.parts[0]}")
                except ForeignRefused as error:
                    self.ledger.refused[write.v] = str(error)
                    env.clock.sleep(1 + env.ids.jitter())
                except HoodooError as error:
                    self.ledger.refused[write.v] = str(error)
                    return
                else:
                    self.ledger.refused.pop(write.v, None)
                    self.ledger.acknowledged[write.v] = done
                    return

        return act

    def foreign_medic(self, *, after_ms: int) -> Action:
        """An actor of the other engine that rolls back what seems dead to it."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return self.engine(env).roll_back_dead()

        return act


class HudiWriter(Mixed):
    """Writers of both engines on the same file group; ours may lose the lock in the gate."""

    name = "hudi-writer"
    chances = Chances(
        {Kind.PAUSE: 0.04, Kind.SLOW_RESPONSE: 0.02, Kind.SLOW_REQUEST: 0.02, Kind.STRAGGLER: 0.01},
        pause_ms=2 * LEASE_MS,
        delay_ms=2 * LEASE_MS,
        spared=_SPARED,
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w": self.later(Write(1, ("a", "x")), after_ms=600),
            "hudi": self.foreign_writer(Write(2, ("a", "b")), after_ms=1_200),
            "hudi2": self.foreign_writer(Write(3, ("a", "c")), after_ms=40_000),
        }


class HudiWriterCrash(HudiWriter):
    """The same; ours may die at any point, and is recovered."""

    name = "hudi-writer-crash"
    chances = Chances(
        {
            **dict.fromkeys((Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.CRASH_IN_FLIGHT), 0.02),
            **dict.fromkeys((Kind.OUTAGE, Kind.INTERRUPT), 0.01),
        },
        at_most=1,
        delay_ms=2 * LEASE_MS,
        spared=_SPARED,
    )

    def actors(self) -> Mapping[str, Action]:
        return {**super().actors(), "medic": self.medic(after_ms=2 * LEASE_MS)}


class HudiRollback(Mixed):
    """The other engine rolls back a writer that has paused, and goes on."""

    name = "hudi-rollback"
    chances = Chances(
        {
            Kind.PAUSE: 0.05,
            Kind.SLOW_REQUEST: 0.02,
            Kind.CRASH_AFTER: 0.01,
            Kind.CRASH_BEFORE: 0.01,
        },
        pause_ms=3 * EXPIRY_MS,
        delay_ms=2 * LEASE_MS,
        spared=_SPARED,
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w": self.writer(Write(1, ("a", "x"))),
            "w2": self.later(Write(2, ("b", "y")), after_ms=EXPIRY_MS),
            "hudi": self.foreign_medic(after_ms=EXPIRY_MS + 5_000),
            "hudi2": self.foreign_medic(after_ms=2 * EXPIRY_MS),
        }


class HudiRollbackDies(HudiRollback):
    """The same; the other engine may die over its rollback, and hoodoo finishes it."""

    name = "hudi-rollback-dies"
    chances = Chances(
        {Kind.PAUSE: 0.05, Kind.CRASH_AFTER: 0.02, Kind.CRASH_BEFORE: 0.02},
        pause_ms=3 * EXPIRY_MS,
    )


class MootRollback(Mixed):
    """The other engine requests the rollback of a completed commit, and dies."""

    name = "moot-rollback"
    chances = Chances(
        {Kind.PAUSE: 0.03, Kind.CRASH_AFTER: 0.01, Kind.LOST_RESPONSE: 0.01},
        pause_ms=2 * EXPIRY_MS,
        spared=_SPARED,
    )

    def actors(self) -> Mapping[str, Action]:
        return {
            "w": self.writer(Write(1, ("a", "x")), Write(2, ("b", "y"))),
            "hudi": self._request,
            "medic": self.medic(after_ms=EXPIRY_MS),
        }

    def _request(self, env: Env) -> None:
        env.clock.sleep(2 * env.ids.jitter())
        engine = self.engine(env)
        with hold_lock(engine.ref, "hudi"):
            engine.request_rollback(engine.ref.load_timeline().commits.instants[-1])

    def _mend(self, world: World) -> None:
        """Recover leaves such a rollback, and says so; whoever is asked drops it."""
        world.pass_time(2 * EXPIRY_MS)
        for verdict in world.do("mender", lambda env: self.table(env).recover()).left:
            drop = partial(self._drop, verdict.instant.requested_time)
            world.do("mender", drop)
        super()._mend(world)

    def _drop(self, rollback: str, env: Env) -> object:
        return self.table(env).rollback(rollback)


SCENARIOS = (HudiWriter, HudiWriterCrash, HudiRollback, HudiRollbackDies, MootRollback)
