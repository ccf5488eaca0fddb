"""Upkeep: cleaning, archival and restores of a table with a past, alone and beside others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from hoodoo.env import Env
from hoodoo.errors import HoodooError, TimelineError
from hoodoo.format import timeline as codec
from hoodoo.model.commit import RestoreMetadata
from hoodoo.model.instant import Action as InstantAction
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.names import instant_name
from hoodoo.testing.sim.faults import Kind
from hoodoo.testing.sim.invariants import Guard
from hoodoo.testing.sim.scenario import Outcome
from hoodoo.testing.sim.seeded import Chances
from hoodoo.testing.sim.stage import Violation
from hoodoo.testing.sim.tables import EXPIRY_MS, LEASE_MS, TableScenario, Write
from hoodoo.testing.sim.truth import TIMELINE, look
from hoodoo.testing.sim.world import Action, Image, World

_RETAINED = 2
_SMALL = {
    "hoodie.clean.commits.retained": _RETAINED,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.timeline.compaction.batch.size": 2,
}
_LOGS = {"hoodie.parquet.small.file.limit": 0}
_CHANCES = Chances(
    {
        **dict.fromkeys((Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.LOST_RESPONSE), 0.01),
        **dict.fromkeys((Kind.PAUSE, Kind.STRAGGLER, Kind.SLOW_REQUEST), 0.01),
    },
    pause_ms=400_000,
)
_images: dict[tuple[object, ...], tuple[Image, Mapping[int, InstantTime]]] = {}


class Aged(TableScenario):
    """A table with several commits, all of them old, and all swept."""

    options = MappingProxyType(_SMALL)
    chances = _CHANCES
    past: ClassVar[tuple[Write, ...]] = (
        Write(101, ("a", "b")),
        Write(102, ("x", "y"), parts=("q",)),
        Write(103, ("b", "c")),
        Write(104, ("x",), parts=("q",), operation="insert_overwrite"),
        Write(105, ("a", "c")),
        Write(106, ("b", "c")),
    )

    def __init__(self) -> None:
        super().__init__()
        self._committed_too: dict[int, InstantTime] = {}

    def setup(self, world: World) -> None:
        key = (self.table_type, tuple(self.options.items()), self.past)
        for write in self.past:
            self.ledger.writes[write.v] = write
        if key not in _images:
            super().setup(world)
            world.do("author", self.writer(*self.past))
            self._sweep(world)
            _images[key] = world.image(), dict(self.ledger.acknowledged)
            return
        image, acknowledged = _images[key]
        world.load(image)
        self.ledger.writes[self.first.v] = self.first
        self.ledger.acknowledged.update(acknowledged)
        world.watch(Guard(world))

    def _sweep(self, world: World) -> None:
        for _ in range(4):
            world.pass_time(EXPIRY_MS + LEASE_MS)
            world.do("mender", lambda env: self.table(env).recover())

    def _mend(self, world: World) -> None:
        """Whatever was cut off is done again, and then all is swept."""
        world.pass_time(EXPIRY_MS + LEASE_MS)
        world.do("mender", lambda env: self.table(env).recover())
        world.do("successor", self._again)
        super()._mend(world)

    def _again(self, env: Env) -> object:
        return None

    def check(self, world: World, outcome: Outcome) -> None:
        super().check(world, outcome)
        world.do("historian", self._check_past)

    def _check_values(
        self, env: Env, committed: Mapping[int, InstantTime], found: Mapping[str, int]
    ) -> None:
        """A write that was overwritten has no witness any more; the ledger tells when it was."""
        super()._check_values(env, {**self.ledger.acknowledged, **committed}, found)
        self._committed_too = dict(committed)  # though nobody was told

    def _check_told(self, committed: Mapping[int, InstantTime]) -> None:
        gone = self._overwritten()
        told = {v: t for v, t in self.ledger.acknowledged.items() if v not in gone}
        for v, instant in told.items():
            if committed.get(v) != instant:
                raise Violation(f"write {v} was acknowledged as {instant}, and is not there")

    def _overwritten(self) -> set[int]:
        """Writes all of whose rows may be gone from the latest view."""
        parts = {p for w in self.past if w.operation == "insert_overwrite" for p in w.parts}
        return {v for v, w in self.ledger.writes.items() if set(w.parts) & parts}

    def _told(self) -> dict[int, InstantTime]:
        return {**self._committed_too, **self.ledger.acknowledged}

    def _check_past(self, env: Env) -> None:
        """Reads as of commits, and what changed since them, are right or refused, never wrong."""
        ended = self._completions(env)
        told = sorted(self._told().items(), key=lambda item: item[1])
        kept = [time for _, time in told][-_RETAINED:]
        for _, time in told:
            rows: dict[str, tuple[str, int]] = {}
            for v, other in sorted(told, key=lambda item: ended[item[1]]):
                if other <= time:
                    self.ledger.writes[v].apply(rows)
            try:
                read = self.table(env).to_arrow(columns=["id", "v"], as_of=time)
            except TimelineError as error:
                if time in kept:
                    raise Violation(f"as of {time} is refused: {error}") from error
                continue
            self._compare(f"as of {time}", read, {key: v for key, (_, v) in rows.items()})
        self._check_changes(env, ended, kept)

    def _check_changes(
        self, env: Env, ended: Mapping[InstantTime, InstantTime], kept: list[InstantTime]
    ) -> None:
        told = sorted(self._told().items(), key=lambda item: ended[item[1]])
        for until in kept:
            rows: dict[str, tuple[str, int]] = {}
            for v, time in told:
                if ended[time] <= ended[until]:
                    self.ledger.writes[v].apply(rows)
            for _, since in told:
                if ended[since] > ended[until]:
                    continue
                read = self.table(env).changes(since=since, until=until, columns=["id", "v"])
                new = {v for v, time in told if ended[time] > ended[since]}
                expected = {key: v for key, (_, v) in rows.items() if v in new}
                self._compare(f"changes from {since} to {until}", read, expected)

    def _compare(self, what: str, read: pa.Table, expected: Mapping[str, int]) -> None:
        columns = (column.to_pylist() for column in read.columns)
        found = dict(zip(*columns, strict=True))
        if found != expected:
            raise Violation(f"{what}: found {found}, expected {dict(expected)}")


# -- clean ----------------------------------------------------------------------------------------


class Clean(Aged):
    """One who cleans."""

    name = "clean"

    def actors(self) -> Mapping[str, Action]:
        return {"janitor": self._clean}

    def _clean(self, env: Env) -> object:
        return self.table(env).clean()

    def _again(self, env: Env) -> object:
        return self._clean(env)

    def check(self, world: World, outcome: Outcome) -> None:
        super().check(world, outcome)
        truth = look(world.storage)
        first = self.ledger.acknowledged[self.first.v]
        if first in truth.data_files.values():
            raise Violation("files of the first commit are still there")


class CleanMor(Clean):
    """The same on a merge-on-read table: file groups are replaced, logs stay."""

    name = "clean-mor"
    table_type = "mor"
    options = MappingProxyType({**_SMALL, **_LOGS})
    past = (
        Write(101, ("a", "b")),
        Write(102, ("y",), operation="insert_overwrite"),
        Write(103, ("y", "z")),
        Write(104, ("y",)),
        Write(105, ("z",)),
    )


class CleanBesideWriters(Clean):
    """Two who clean, writers on the same file groups, and one who reads."""

    name = "clean-beside-writers"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "z")), Write(3, ("b",))),
            "w2": self.writer(Write(2, ("c", "u"))),
            "janitor": self._clean,
            "second": self._clean_later,
        }

    def _clean_later(self, env: Env) -> object:
        env.clock.sleep(2 * env.ids.jitter())
        return self._clean(env)


# -- archive --------------------------------------------------------------------------------------


class Archive(Aged):
    """One who archives, in two steps so that layers of the history are merged."""

    name = "archive"

    def actors(self) -> Mapping[str, Action]:
        return {"archivist": self._archive}

    def _archive(self, env: Env) -> object:
        table = self.table(env, **{"hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5})
        table.clean()
        return [table.archive(), self.table(env).archive()]

    def _again(self, env: Env) -> object:
        return self._archive(env)

    def check(self, world: World, outcome: Outcome) -> None:
        super().check(world, outcome)
        truth = look(world.storage)
        commits = [i for i in truth.completed if i.action.writes_data]
        if not truth.archived or len(commits) > 4 + 1 + len(self.actors()):
            raise Violation(f"{len(commits)} commits are still on the timeline")
        if set(truth.archived) & {i.requested_time for i in truth.instants}:
            raise Violation("an archived instant is still on the timeline")


class ArchiveBesideWriters(Archive):
    """Two who archive, and writers."""

    name = "archive-beside-writers"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "z")), Write(3, ("b",))),
            "archivist": self._archive,
            "second": self._archive,
            "reader": self.reader(reads=4, every_ms=300),
        }

    def reader(self, *, reads: int = 8, every_ms: int = 700) -> Action:
        """One who reads again and again; what was overwritten is not missed."""

        def act(env: Env) -> None:
            for _ in range(reads):
                env.clock.sleep(every_ms / 1000)
                gone = self._overwritten()
                told = {v for v in self.ledger.acknowledged if v not in gone}
                try:
                    read = self.table(env).to_arrow(columns=["id"])
                except HoodooError:
                    continue
                keys = read.column("id").to_pylist()
                missed = {self.ledger.writes[v].witness for v in told} - set(keys)
                if missed or len(keys) != len(set(keys)):
                    raise Violation(f"missed {sorted(missed)}, read {sorted(keys)}")

        return act


# -- restore --------------------------------------------------------------------------------------


class Restore(Aged):
    """One who takes the table back to a savepoint."""

    name = "restore"
    target: ClassVar[int] = 103

    def setup(self, world: World) -> None:
        super().setup(world)
        world.do("keeper", lambda env: self.table(env).savepoint(self._target))

    @property
    def _target(self) -> InstantTime:
        return self.ledger.acknowledged[self.target]

    def actors(self) -> Mapping[str, Action]:
        return {"operator": self._restore}

    def _restore(self, env: Env) -> object:
        return self.table(env).restore(self._target)

    def _again(self, env: Env) -> object:
        return self._restore(env)

    def check(self, world: World, outcome: Outcome) -> None:
        self._mend(world)
        self._forget(world)
        super().check(world, outcome)
        kept = {v for v in self.ledger.writes if 100 <= v <= self.target}
        left = {v for v in self.ledger.acknowledged if v > 100 and v != 999}
        if left != kept:
            raise Violation(f"{sorted(left)} are there, not {sorted(kept)}")

    def _forget(self, world: World) -> None:
        """What a restore took back was never written."""
        for instant in look(world.storage).completed:
            if instant.action is not InstantAction.RESTORE:
                continue
            data = world.storage.read(f"{TIMELINE.active}/{instant_name(instant, layout=2)}")
            metadata = codec.decode(data, instant.action, State.COMPLETED)
            assert isinstance(metadata, RestoreMetadata)
            for v, time in list(self.ledger.acknowledged.items()):
                if time in metadata.instants_to_rollback:
                    del self.ledger.acknowledged[v]


class RestoreMor(Restore):
    """The same on a merge-on-read table."""

    name = "restore-mor"
    table_type = "mor"
    options = MappingProxyType({**_SMALL, **_LOGS})


class RestoreBesideWriters(Restore):
    """One who restores, while others write: they are in its way, or it is in theirs."""

    name = "restore-beside-writers"

    def actors(self) -> Mapping[str, Action]:
        return {
            "w1": self.writer(Write(1, ("a", "z"))),
            "operator": self._restore,
            "w2": self.later(Write(2, ("c", "u")), after_ms=3_000),
        }


SCENARIOS = (
    Clean,
    CleanMor,
    CleanBesideWriters,
    Archive,
    ArchiveBesideWriters,
    Restore,
    RestoreMor,
    RestoreBesideWriters,
)
