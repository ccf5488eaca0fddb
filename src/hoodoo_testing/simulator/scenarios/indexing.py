"""Indexes that are built while others write: design 004, its cases by name, and more.

Whenever an index is in use, and once all is at rest, it is what a fresh one would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from hoodoo.errors import HoodooError, PlanNotExecutable
from hoodoo.model import paths
from hoodoo.model.instant import Action as InstantAction
from hoodoo.model.metadata_table import COLUMN_STATS, FILES, RECORD_INDEX
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env, SystemClock, SystemIds
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.services.indexing.build import create_index, run_index
from hoodoo.services.indexing.drop import drop_index
from hoodoo.services.indexing.plan import schedule_index
from hoodoo.services.plans.pending import find_plans
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.simulator.actors.tables import (
    EXPIRY_MS,
    LEASE_MS,
    OPTIONS,
    TableScenario,
    Write,
)
from hoodoo_testing.simulator.checks.truth import TIMELINE, parse_timeline_name
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.world.faults import Fault, FaultKind, StorageOperation
from hoodoo_testing.simulator.world.schedule import FaultAt
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, World
from hoodoo_testing.tables.fresh_indexes import find_differences

_LOGS = MappingProxyType({"hoodie.parquet.small.file.limit": 0})
_FEW = {"hoodie.metadata.global.record.level.index.min.filegroup.count": 2}
_ENGINE = LocalEngine(threads=1)


class IndexGuard:
    """After each moment that readers could notice: indexes in use are what fresh ones would be."""

    def __init__(self, store: MemoryStorage) -> None:
        self._store = store

    def __call__(self, operation: StorageOperation) -> None:
        """Compare, if a commit, a clean or the properties have landed."""
        path = operation.path
        if operation.verb == "delete":
            return
        instant = parse_timeline_name(path.rpartition("/")[2], layout=2)
        is_ending = instant is not None and instant.is_completed
        if path == paths.PROPERTIES or (is_ending and path.startswith(f"{TIMELINE.active}/")):
            refuse_differences(self._store)


def refuse_differences(store: MemoryStorage) -> None:
    """Raise a `Violation` if an index in use is not what a fresh one would be."""
    ref = open_ref(store.uri, {}, Env(store, SystemClock(), SystemIds()))
    if FILES not in ref.properties.metadata_partitions:
        return
    try:
        differences = find_differences(ref)
    except HoodooError as error:
        raise Violation(f"an index in use cannot be read: {error}") from None
    if differences:
        raise Violation("; ".join(differences))


class IndexingScenario(TableScenario):
    """A table whose metadata table gets indexes while it is written to."""

    options: ClassVar[Mapping[str, object]] = _FEW
    indexes: ClassVar[tuple[str, ...]] = (FILES, COLUMN_STATS, RECORD_INDEX)
    is_planned: ClassVar[bool] = False
    """Whether the builds are planned when the actors begin."""

    @property
    def preparation(self) -> object:
        return "indexing", self.indexes, self.is_planned

    def prepare(self, env: Env) -> None:
        """Another file group; and the plan, if there is to be one."""
        self.table(env).insert(Write(7, ("m",), parts=("q",)).rows())
        if self.is_planned:
            schedule_index(self.ref(env), self.indexes)

    def setup(self, world: World) -> None:
        self.ledger.writes[7] = Write(7, ("m",), parts=("q",))
        super().setup(world)
        world.watch(IndexGuard(world.storage))

    def ref(self, env: Env) -> TableRef:
        """The table, as a process opens it."""
        return open_ref(env.storage.uri, {**OPTIONS, **self.options}, env)

    # -- actors -------------------------------------------------------------------------------

    def scheduler(self, *, after_ms: int = 0) -> ActorAction:
        """Plans the builds."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return schedule_index(self.ref(env), self.indexes)

        return act

    def builder(self, *, after_ms: int = 0) -> ActorAction:
        """Runs what is planned."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return run_index(self.ref(env), None, _ENGINE)

        return act

    def indexer(self, *, after_ms: int = 0) -> ActorAction:
        """Plans the builds and runs them."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return create_index(self.ref(env), self.indexes, _ENGINE)

        return act

    def dropper(self, *indexes: str, after_ms: int = 0) -> ActorAction:
        """Drops indexes."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return drop_index(self.ref(env), *indexes)

        return act

    def compactor(self, *, after_ms: int = 0) -> ActorAction:
        """Compacts the metadata table."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return compact_metadata_table(self.ref(env), at_least=1)

        return act

    # -- what must hold -----------------------------------------------------------------------

    def check(self, world: World, outcome: RunOutcome) -> None:
        for v, reason in self.ledger.refusals.items():
            if "index" in reason or "metadata table" in reason:
                raise Violation(f"write {v} failed because of an index: {reason}")
        if FaultKind.JUMP_STORE in self.chances.rates:  # heartbeats may be dated far ahead
            world.pass_time(self.chances.at_most * self.chances.jump_ms)
        world.pass_time(EXPIRY_MS + LEASE_MS)
        world.do("finisher", self._finish_builds)
        super().check(world, outcome)
        refuse_differences(world.storage)

    def _finish_builds(self, env: Env) -> None:
        """Whatever is planned can be completed by the next one to come."""
        ref = self.ref(env)
        for plan in find_plans(ref.load_timeline(), InstantAction.INDEXING):
            run_index(ref, plan.requested_time, _ENGINE)
        if self.must_be_built:
            create_index(ref, self.indexes, _ENGINE)
            lacking = set(self.indexes) - set(ref.reopen().properties.metadata_partitions)
            if lacking:
                raise Violation(f"not built: {sorted(lacking)}")

    must_be_built: ClassVar[bool] = True


class Case1WriterFails(IndexingScenario):
    """Case 1: a writer dies while an index is built; the build does not wait for it."""

    name = "index-writer-fails"
    is_planned = True

    def actors(self) -> Mapping[str, ActorAction]:
        return {"w": self.writer(Write(1, ("a", "x"))), "index": self.builder(after_ms=100)}


class Case2IndexerFails(IndexingScenario):
    """Case 2: the indexer dies while writers go on; the next one resumes the build."""

    name = "index-indexer-fails"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "index": self.indexer(),
            "w": self.writer(Write(1, ("a", "x")), Write(2, ("y",), parts=("q",))),
        }


class Case2IndexerFailsMor(Case2IndexerFails):
    """The same with log files."""

    name = "index-indexer-fails-mor"
    table_type = "mor"
    options = MappingProxyType({**_FEW, **_LOGS})


class Case3aPlannedBefore(IndexingScenario):
    """Case 3a: a writer goes inflight when the build is planned, and not begun."""

    name = "index-planned-before"
    is_planned = True

    def actors(self) -> Mapping[str, ActorAction]:
        return {"w": self.writer(Write(1, ("a", "x"))), "index": self.builder()}


class Case3bPublishedMeanwhile(IndexingScenario):
    """Case 3b: a writer that began without the index commits when it is just complete."""

    name = "index-published-meanwhile"
    is_planned = True
    indexes = (FILES, RECORD_INDEX)

    def actors(self) -> Mapping[str, ActorAction]:
        return {"index": self.builder(), "w": self.writer(Write(1, ("a", "x")))}


class Case3cScheduledMeanwhile(IndexingScenario):
    """Case 3c: a writer commits while the file groups of an index are being made."""

    name = "index-scheduled-meanwhile"
    indexes = (FILES, RECORD_INDEX)

    def actors(self) -> Mapping[str, ActorAction]:
        return {"index": self.scheduler(), "w": self.writer(Write(1, ("a", "x")))}


class Case4TableServices(IndexingScenario):
    """Case 4: compaction, clean and compaction of the metadata table beside a build."""

    name = "index-table-services"
    table_type = "mor"
    options = MappingProxyType({**_FEW, **_LOGS, "hoodie.clean.commits.retained": 1})

    def actors(self) -> Mapping[str, ActorAction]:
        def services(env: Env) -> object:
            table = self.table(env)
            table.schedule_compaction()
            table.run_compaction()
            return table.clean()

        return {
            "w": self.writer(Write(1, ("a", "x")), Write(2, ("a", "b"))),
            "index": self.indexer(after_ms=200),
            "services": services,
            "compactor": self.compactor(after_ms=400),
        }

    def _finish_builds(self, env: Env) -> None:
        super()._finish_builds(env)
        table = self.table(env)
        table.run_compaction()
        table.clean()


class MultiWriter(IndexingScenario):
    """The multi-writer scenario: two writers in flight while an index is requested and built."""

    name = "index-multi-writer"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x")), Write(3, ("c", "z"))),
            "w2": self.writer(Write(2, ("y",), parts=("q",)), Write(4, ("m", "n"), parts=("q",))),
            "index": self.indexer(after_ms=150),
            "late": self.indexer(after_ms=2 * EXPIRY_MS),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
        }


class DroppedMeanwhile(IndexingScenario):
    """An index is dropped while it is built and written to, and built again."""

    name = "index-dropped-meanwhile"
    is_planned = True
    must_be_built = False

    def actors(self) -> Mapping[str, ActorAction]:
        def again(env: Env) -> object:
            drop_index(self.ref(env), RECORD_INDEX)
            try:
                return create_index(self.ref(env), self.indexes, _ENGINE)
            except PlanNotExecutable:
                return None

        return {
            "index": self.builder(),
            "w": self.writer(Write(1, ("a", "x")), Write(2, ("y",), parts=("q",))),
            "drop": again,
        }


class PausedIndexer(IndexingScenario):
    """Indexers and writers that may pause until their locks, and they themselves, are given up."""

    name = "index-paused"
    chances = MultiWriter.chances

    def setup(self, world: World) -> None:
        super().setup(world)
        pause = FaultAt("dead", paths.HEAD, Fault(FaultKind.CRASH_AFTER))
        world.play({"dead": self.scheduler()}, pause)

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "index": self.indexer(),
            "w": self.writer(Write(1, ("a", "x"))),
            "rival": self.indexer(after_ms=50),
        }


SCENARIOS: Sequence[type[IndexingScenario]] = (
    Case1WriterFails,
    Case2IndexerFails,
    Case2IndexerFailsMor,
    Case3aPlannedBefore,
    Case3bPublishedMeanwhile,
    Case3cScheduledMeanwhile,
    Case4TableServices,
    MultiWriter,
    DroppedMeanwhile,
    PausedIndexer,
)
