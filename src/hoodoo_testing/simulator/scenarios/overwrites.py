"""Writes that replace whole partitions or make the same bucket, and an engine that knows no head.

The other engine takes the lock of the table, but does not decide by its head.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import ClassVar

from hoodoo.concurrency.locks.table_lock import hold_lock
from hoodoo.errors import HoodooError
from hoodoo.model.commit import WRITER_KEY
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.env import Env
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit
from hoodoo_testing.simulator.actors.other_engine import ForeignEngine, ForeignRefused
from hoodoo_testing.simulator.actors.tables import (
    EXPIRY_MS,
    LEASE_MS,
    OPTIONS,
    TableScenario,
    Write,
)
from hoodoo_testing.simulator.world.faults import FaultKind
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Settings
from hoodoo_testing.simulator.world.world import ActorAction, World

# -- partitions and buckets ------------------------------------------------------------------------


def committed_by_process(env: Env, writes: Mapping[str, Write]) -> dict[int, InstantTime]:
    """Which of these writes, by the process that does each, were committed, and as what."""
    ref = open_ref(env.storage.uri, OPTIONS, env)
    commit_times = {}
    for instant in ref.load_timeline().commits:
        metadata = read_commit(env, ref.properties.timeline_paths, instant)
        words = metadata.extra_metadata[WRITER_KEY].replace(",", " ").split()
        for name, write in writes.items():
            if name in words:
                commit_times[write.v] = instant.requested_time
    return commit_times


class Overwrite(TableScenario):
    """Two overwrites of a partition that is empty, and an insert into it.

    An overwrite takes witnesses of others away. So each process does one write, and commits are
    known by the process that made them.
    """

    name = "overwrite"
    plan: Mapping[str, Write] = MappingProxyType(
        {
            "w1": Write(1, ("x",), parts=("q",), operation="insert_overwrite"),
            "w2": Write(2, ("y",), parts=("q",), operation="insert_overwrite"),
            "w3": Write(3, ("z",), parts=("q",), operation="insert"),
        }
    )

    def actors(self) -> Mapping[str, ActorAction]:
        return {name: self.writer(write) for name, write in self.plan.items()}

    def _commit_times(
        self, env: Env, rows_by_key: Mapping[str, tuple[InstantTime, int]]
    ) -> dict[int, InstantTime]:
        commit_times = {self.first.v: self.ledger.acknowledgements[self.first.v]}
        return commit_times | committed_by_process(env, self.plan)


class OverwriteUpsert(Overwrite):
    """An overwrite of a partition with rows, an upsert of these, and an insert beside them."""

    name = "overwrite-upsert"
    plan = MappingProxyType(
        {
            "w1": Write(1, ("x",), operation="insert_overwrite"),
            "w2": Write(2, ("a", "y")),
            "w3": Write(3, ("z",), operation="insert"),
        }
    )


class OverwriteUpsertMor(OverwriteUpsert):
    """The same on a merge-on-read table."""

    name = "overwrite-upsert-mor"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


class DropPartition(Overwrite):
    """A partition is dropped while rows are inserted into it, and updated in it."""

    name = "drop-partition"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})
    plan = MappingProxyType(
        {
            "w1": Write(1, (), operation="delete_partitions"),
            "w2": Write(2, ("y",), operation="insert"),
            "w3": Write(3, ("a", "z"), parts=("p", "q")),
        }
    )


class SameBucket(TableScenario):
    """Three writers that make the same buckets of a new partition, with the same key."""

    name = "same-bucket"
    options = MappingProxyType(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1}
    )

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("new", "x"), parts=("q",))),
            "w2": self.writer(Write(2, ("new", "y"), parts=("q",))),
            "w3": self.writer(Write(3, ("new", "a"), parts=("q", "p"))),
        }


class SameBucketMor(SameBucket):
    """The same on a merge-on-read table."""

    name = "same-bucket-mor"
    table_type = "mor"


_OVERWRITES = (
    Overwrite,
    OverwriteUpsert,
    OverwriteUpsertMor,
    DropPartition,
    SameBucket,
    SameBucketMor,
)


# -- beside another engine -------------------------------------------------------------------------


_SPARED_PROCESSES = frozenset({"hudi", "hudi2"})
"""It holds its lock as long as it needs it, and hears the answers that it gets."""


class MixedScenario(TableScenario):
    """A table that another engine writes to as well."""

    is_mixed: ClassVar[bool] = True
    settings = Settings(in_flight_ms=LEASE_MS // 4)
    """A request of a writer that died over it must land before its lease ends: nobody could take
    back what lands later, and the other engine does not ask for it."""

    def engine(self, env: Env) -> ForeignEngine:
        return ForeignEngine(self.table(env)._ref, EXPIRY_MS)

    def foreign_writer(self, write: Write, *, after_ms: int = 0) -> ActorAction:
        """An actor of the other engine that does one write, as often as it must."""
        self.ledger.writes[write.v] = write

        def act(env: Env) -> None:
            env.clock.sleep(after_ms / 1000 * env.ids.jitter())
            for _ in range(4):
                try:
                    instant = self.engine(env).upsert(
                        write.rows(), partition=f"part={write.parts[0]}"
                    )
                except ForeignRefused as error:
                    self.ledger.refusals[write.v] = str(error)
                    env.clock.sleep(1 + env.ids.jitter())
                except HoodooError as error:
                    self.ledger.refusals[write.v] = str(error)
                    return
                else:
                    self.ledger.refusals.pop(write.v, None)
                    self.ledger.acknowledgements[write.v] = instant
                    return

        return act

    def foreign_medic(self, *, after_ms: int) -> ActorAction:
        """An actor of the other engine that rolls back what seems dead to it."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return self.engine(env).roll_back_dead()

        return act


class HudiWriter(MixedScenario):
    """Writers of both engines on the same file group; ours may lose the lock in the gate."""

    name = "hudi-writer"
    chances = Chances(
        {
            FaultKind.PAUSE: 0.04,
            FaultKind.SLOW_RESPONSE: 0.02,
            FaultKind.SLOW_REQUEST: 0.02,
            FaultKind.STRAGGLER: 0.01,
        },
        pause_ms=2 * LEASE_MS,
        delay_ms=2 * LEASE_MS,
        spared_processes=_SPARED_PROCESSES,
    )

    def actors(self) -> Mapping[str, ActorAction]:
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
            **dict.fromkeys(
                (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.CRASH_IN_FLIGHT), 0.02
            ),
            **dict.fromkeys((FaultKind.OUTAGE, FaultKind.INTERRUPT), 0.01),
        },
        at_most=1,
        delay_ms=2 * LEASE_MS,
        spared_processes=_SPARED_PROCESSES,
    )

    def actors(self) -> Mapping[str, ActorAction]:
        return {**super().actors(), "medic": self.medic(after_ms=2 * LEASE_MS)}


class HudiRollback(MixedScenario):
    """The other engine rolls back a writer that has paused, and goes on."""

    name = "hudi-rollback"
    chances = Chances(
        {
            FaultKind.PAUSE: 0.05,
            FaultKind.SLOW_REQUEST: 0.02,
            FaultKind.CRASH_AFTER: 0.01,
            FaultKind.CRASH_BEFORE: 0.01,
        },
        pause_ms=3 * EXPIRY_MS,
        delay_ms=2 * LEASE_MS,
        spared_processes=_SPARED_PROCESSES,
    )

    def actors(self) -> Mapping[str, ActorAction]:
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
        {FaultKind.PAUSE: 0.05, FaultKind.CRASH_AFTER: 0.02, FaultKind.CRASH_BEFORE: 0.02},
        pause_ms=3 * EXPIRY_MS,
    )


class MootRollback(MixedScenario):
    """The other engine requests the rollback of a completed commit, and dies."""

    name = "moot-rollback"
    chances = Chances(
        {FaultKind.PAUSE: 0.03, FaultKind.CRASH_AFTER: 0.01, FaultKind.LOST_RESPONSE: 0.01},
        pause_ms=2 * EXPIRY_MS,
        spared_processes=_SPARED_PROCESSES,
    )

    def actors(self) -> Mapping[str, ActorAction]:
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
        for verdict in world.do("mender", lambda env: self.table(env).recover()).left_pending:
            drop = partial(self._drop, verdict.instant.requested_time)
            world.do("mender", drop)
        super()._mend(world)

    def _drop(self, rollback: str, env: Env) -> object:
        return self.table(env).rollback(rollback)


_MIXED_SCENARIOS = (HudiWriter, HudiWriterCrash, HudiRollback, HudiRollbackDies, MootRollback)

SCENARIOS = (*_OVERWRITES, *_MIXED_SCENARIOS)
