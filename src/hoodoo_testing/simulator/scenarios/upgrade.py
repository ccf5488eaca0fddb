"""Upgrades of old tables: what readers see is the same at every moment, before, during and after.

Whoever upgrades again after a crash finishes, and then the table can be written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.errors import HoodooError
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import parse_instant
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env, SystemClock, SystemIds
from hoodoo.storage.storage import Storage
from hoodoo.table.create import create_table
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.actors.tables import (
    EXPIRY_MS,
    IN_FLIGHT_MS,
    LEASE_MS,
    OPTIONS,
    SCHEMA,
)
from hoodoo_testing.simulator.checks.metadata_table import check_metadata_table
from hoodoo_testing.simulator.scenario import RunOutcome, Scenario
from hoodoo_testing.simulator.world.faults import FaultKind, ProcessCrash, StorageOperation
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Settings, Violation
from hoodoo_testing.simulator.world.world import ActorAction, Image, World
from hoodoo_testing.tables.old_versions import make_version_6, make_version_8, name_metadata_table

_LOGS = {"hoodie.parquet.small.file.limit": 0}


Rows = list[dict[str, object]]


@dataclass(frozen=True)
class Reading:
    """All that readers see of a table."""

    latest: Rows
    past: Mapping[InstantTime, Rows]
    """As of each commit."""
    changes: Mapping[InstantTime, Rows]
    """Since the first of them."""
    schema: pa.Schema


_images: dict[str, tuple[Image, Reading]] = {}


class Upgrade(Scenario):
    """One who upgrades a table with a past."""

    table_type: ClassVar[str] = "cow"
    partitions: ClassVar[tuple[str, ...]] = ()
    """The metadata table that it has, and has again afterwards."""
    is_watched: ClassVar[bool] = False
    """Whether the table is read after every change of the store."""
    settings = Settings(in_flight_ms=IN_FLIGHT_MS)
    chances = Chances(
        {
            **dict.fromkeys(
                (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.LOST_RESPONSE), 0.02
            ),
            **dict.fromkeys((FaultKind.PAUSE, FaultKind.STRAGGLER, FaultKind.SLOW_REQUEST), 0.02),
        },
        pause_ms=400_000,
    )

    def __init__(self) -> None:
        self._is_upgraded = False

    @abstractmethod
    def age(self, storage: Storage) -> None:
        """Make the table an old one."""

    def actors(self) -> Mapping[str, ActorAction]:
        return {"operator": self._upgrade}

    def setup(self, world: World) -> None:
        env = Env(world.storage, SystemClock(), SystemIds())
        if self.name not in _images:
            world.do("founder", self._create_table)
            self.age(world.storage)
            world.pass_time(2 * EXPIRY_MS)
            _images[self.name] = world.image(), self._read(env)
        else:
            world.load(_images[self.name][0])

        def look(operation: StorageOperation) -> None:
            """Readers come at any moment, until rows are written."""
            if not self._is_upgraded and operation.mutates and operation.path != paths.LOCK:
                self._compare(env, f"after {operation.verb} {operation.path}")

        if self.is_watched:
            world.watch(look)

    def _create_table(self, env: Env) -> None:
        create_table(
            env.storage.uri,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            table_type=self.table_type,
            env=env,
        )
        table = self._table(env)
        for v, keys in enumerate((("a", "b"), ("b", "c"), ("a", "d"))):
            table.upsert(_rows(v, *keys))

    def _table(self, env: Env) -> Table:
        options = {**OPTIONS, **_LOGS}
        return Table(open_ref(env.storage.uri, options, env), LocalEngine(threads=1))

    def _upgrade(self, env: Env) -> object:
        return self._table(env).upgrade()

    def _read(self, env: Env) -> Reading:
        table = self._table(env)
        times = [i.requested_time for i in table._ref.load_timeline().commits]
        return Reading(
            _sort_rows(table.to_arrow()),
            {time: _sort_rows(table.to_arrow(as_of=time)) for time in times},
            {time: _sort_rows(table.changes(since=time)) for time in times[:1]},
            table.schema,
        )

    def _compare(self, env: Env, when: str) -> None:
        try:
            now = self._read(env)
        except HoodooError as error:
            raise Violation(f"{when}: the table cannot be read: {error}") from error
        for part in fields(Reading):
            after = getattr(now, part.name)
            before = getattr(_images[self.name][1], part.name)
            if after != before:
                raise Violation(f"{when}: {part.name} is {after} instead of {before}")

    def check(self, world: World, outcome: RunOutcome) -> None:
        for error in outcome.errors.values():
            if not isinstance(error, HoodooError | ProcessCrash | KeyboardInterrupt):
                raise error
        env = Env(world.storage, SystemClock(), SystemIds())
        self._compare(env, "after all")
        world.pass_time(EXPIRY_MS + LEASE_MS)
        world.do("successor", self._upgrade)
        self._compare(env, "after a second upgrade")
        self._check_tidy(world)
        self._check_rebuilt(world)
        self._is_upgraded = True
        world.do("successor", lambda env: self._table(env).upsert(_rows(9, "a", "e")))
        world.do("successor", lambda env: self._table(env).delete(["b"]))
        rows = self._table(env).to_arrow(columns=["id", "v"]).sort_by("id").to_pylist()
        if {row["id"]: row["v"] for row in rows} != {"a": 9, "c": 1, "d": 2, "e": 9}:
            raise Violation(f"rows are wrong after two writes: {rows}")
        self._check_rebuilt(world)

    def _check_rebuilt(self, world: World) -> None:
        ref = open_ref(world.storage.uri, {}, Env(world.storage, SystemClock(), SystemIds()))
        present = ref.properties.metadata_partitions
        if set(present) != set(self.partitions):
            raise Violation(f"the metadata table has {present} instead of {self.partitions}")
        if present:
            check_metadata_table(world.storage)

    def _check_tidy(self, world: World) -> None:
        for entry in world.storage.list(paths.META, recursive=True):
            directory, _, name = entry.path.rpartition("/")
            is_old = directory == paths.META and parse_instant(name, layout=1) is not None
            if is_old or entry.path == paths.UPGRADE or "/archived/" in entry.path:
                raise Violation(f"{entry.path} is left")


def _rows(v: int, *keys: str) -> pa.Table:
    return pa.table([list(keys), ["p"] * len(keys), [v] * len(keys)], schema=SCHEMA)


def _sort_rows(rows: pa.Table) -> Rows:
    row_list: Rows = rows.sort_by("id").to_pylist()
    return row_list


class UpgradeSix(Upgrade):
    """A copy-on-write table of version 6."""

    name = "upgrade-6"
    partitions = ("files",)

    def age(self, storage: Storage) -> None:
        """Version 6, with a metadata table."""
        make_version_6(storage)
        name_metadata_table(storage, *self.partitions)


class UpgradeSixMor(Upgrade):
    """A merge-on-read one, with logs; its oldest commit is archived."""

    name = "upgrade-6-mor"
    table_type = "mor"

    def age(self, storage: Storage) -> None:
        """Version 6, with an archive."""
        make_version_6(storage, archive_count=1)


class UpgradeEight(Upgrade):
    """A table of version 8."""

    name = "upgrade-8"
    table_type = "mor"
    partitions = ("files",)

    def age(self, storage: Storage) -> None:
        """Version 8, with a metadata table."""
        make_version_8(storage)
        name_metadata_table(storage, *self.partitions)


class TwoUpgrades(UpgradeSix):
    """Two who upgrade at the same time."""

    name = "two-upgrades"
    is_watched = True

    def actors(self) -> Mapping[str, ActorAction]:
        return MappingProxyType({"one": self._upgrade, "two": self._upgrade})


class WatchedSix(UpgradeSix):
    """Readers look after every change of the store."""

    name = "watched-upgrade-6"
    is_watched = True


class WatchedSixMor(UpgradeSixMor):
    """The same of a merge-on-read table."""

    name = "watched-upgrade-6-mor"
    is_watched = True


class WatchedEight(UpgradeEight):
    """The same of a table of version 8."""

    name = "watched-upgrade-8"
    is_watched = True


SCENARIOS = (
    UpgradeSix,
    UpgradeSixMor,
    UpgradeEight,
    TwoUpgrades,
    WatchedSix,
    WatchedSixMor,
    WatchedEight,
)
