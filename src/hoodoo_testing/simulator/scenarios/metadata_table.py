"""Tables with a metadata table: what is written to it is right at every moment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hoodoo.config.metadata_table import RECORD_INDEX_MIN_GROUPS
from hoodoo.model import paths
from hoodoo.model.metadata_table import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.actors.tables import (
    EXPIRY_MS,
    LEASE_MS,
    OPTIONS,
    TableScenario,
    Write,
)
from hoodoo_testing.simulator.checks.metadata_table import MetadataGuard, check_metadata_table
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.scenarios import commits
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import Chances, FaultAt
from hoodoo_testing.simulator.world.world import ActorAction, World

_LOGS = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


class MetadataScenario(TableScenario):
    """A table with a listing and statistics in its metadata table."""

    indexes: tuple[str, ...] = (FILES, COLUMN_STATS, PARTITION_STATS)

    @property
    def preparation(self) -> object:
        return "metadata", self.indexes

    def prepare(self, env: Env) -> None:
        """The metadata table."""
        add_metadata_partitions(self.table(env)._ref, LocalEngine(threads=1), *self.indexes)

    def setup(self, world: World) -> None:
        super().setup(world)
        world.watch(MetadataGuard(world))

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        check_metadata_table(world.storage)

    def compactor(self, *, at_least: int = 1, after_ms: int = 0) -> ActorAction:
        """An actor that compacts the metadata table."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            ref = open_ref(env.storage.uri, {**OPTIONS, **self.options}, env)
            return compact_metadata_table(ref, at_least=at_least)

        return act


class UpsertListed(MetadataScenario):
    """One upsert that rewrites a file group, and adds a new one."""

    name = "upsert-listed"

    def actors(self) -> Mapping[str, ActorAction]:
        return {"w": self.writer(Write(1, ("a", "x", "y"), parts=("p", "q")))}


class UpsertListedMor(UpsertListed):
    """The same with log files."""

    name = "upsert-listed-mor"
    table_type = "mor"
    options = _LOGS


class UpsertIndexed(MetadataScenario):
    """An upsert that updates a key and inserts two, with a record index."""

    name = "upsert-indexed"
    indexes = (FILES, RECORD_INDEX)
    options = MappingProxyType({RECORD_INDEX_MIN_GROUPS.name: 2})

    def actors(self) -> Mapping[str, ActorAction]:
        return {"w": self.writer(Write(1, ("a", "x", "y"), parts=("p", "q")))}


class RollbackListed(MetadataScenario):
    """A write that died with its delta commit written, and one who rolls it back."""

    name = "rollback-listed"

    def setup(self, world: World) -> None:
        super().setup(world)
        write = {"dead": self.writer(Write(1, ("a", "x")))}
        world.play(write, FaultAt("dead", paths.HEAD, Fault(FaultKind.CRASH_BEFORE)))
        world.pass_time(2 * EXPIRY_MS)

    def actors(self) -> Mapping[str, ActorAction]:
        return {"medic": self.medic()}


class CompactListing(MetadataScenario):
    """A compaction of the metadata table after two writes."""

    name = "compact-listing"

    @property
    def preparation(self) -> object:
        return "metadata, two writes", self.indexes

    def prepare(self, env: Env) -> None:
        """Two writes."""
        super().prepare(env)
        self.writer(Write(1, ("a", "x")), Write(2, ("y",), parts=("q",)))(env)

    def setup(self, world: World) -> None:
        self.writer(Write(1, ("a", "x")), Write(2, ("y",), parts=("q",)))
        super().setup(world)

    def actors(self) -> Mapping[str, ActorAction]:
        return {"c": self.compactor()}


class CreateIndex(TableScenario):
    """A table gets a metadata table while it is written to."""

    name = "create-index"

    def setup(self, world: World) -> None:
        super().setup(world)
        world.watch(MetadataGuard(world))

    def actors(self) -> Mapping[str, ActorAction]:
        def build(env: Env) -> object:
            ref = self.table(env)._ref
            return add_metadata_partitions(ref, LocalEngine(threads=1), FILES, COLUMN_STATS)

        return {"w": self.writer(Write(1, ("a", "x"))), "index": build}

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        check_metadata_table(world.storage)


class WritersListed(MetadataScenario):
    """Writers, one who mends, and compactions of the metadata table beside them."""

    name = "writers-listed"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x")), Write(3, ("y", "y2"), parts=("q",))),
            "w2": self.writer(Write(2, ("z",), parts=("q",))),
            "c": self.compactor(after_ms=1_000),
            "late": self.compactor(after_ms=3 * EXPIRY_MS),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
        }


class LeaseLossListed(MetadataScenario):
    """A writer and a compaction that may pause until their locks are gone."""

    name = "lease-loss-listed"
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
            "c": self.compactor(after_ms=LEASE_MS // 10),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
        }


class OutageListed(MetadataScenario):
    """Answers that get lost, with an outage after them; and one who reads on."""

    name = "outage-listed"
    chances = commits.Outage.chances

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "x")), Write(3, ("c", "z"))),
            "w2": self.writer(Write(2, ("a", "y"))),
            "medic": self.medic(after_ms=2 * EXPIRY_MS),
            "reader": self.reader(),
        }


class InFlightListed(MetadataScenario, commits.InFlight):
    """A writer that dies with its last request under way, and those who roll it back early."""

    name = "in-flight-listed"


SCENARIOS = (
    UpsertListed,
    UpsertListedMor,
    UpsertIndexed,
    RollbackListed,
    CompactListing,
    CreateIndex,
    WritersListed,
    LeaseLossListed,
    OutageListed,
    InFlightListed,
)
