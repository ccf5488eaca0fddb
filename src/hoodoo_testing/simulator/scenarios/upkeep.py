"""Upkeep: cleaning, archival and restores of a table with a past, alone and beside others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from hoodoo.errors import HoodooError, TimelineError
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import RestoreMetadata
from hoodoo.model.instant import Action as InstantAction
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.names import instant_name
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.actors.tables import EXPIRY_MS, LEASE_MS, TableScenario, Write
from hoodoo_testing.simulator.checks.invariants import Guard
from hoodoo_testing.simulator.checks.truth import TIMELINE, read_stored_table
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.world.faults import FaultKind
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, Image, World

_RETAINED_COMMITS = 2
_SMALL = {
    "hoodie.clean.commits.retained": _RETAINED_COMMITS,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.timeline.compaction.batch.size": 2,
}
_LOGS = {"hoodie.parquet.small.file.limit": 0}
_CHANCES = Chances(
    {
        **dict.fromkeys(
            (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.LOST_RESPONSE), 0.01
        ),
        **dict.fromkeys((FaultKind.PAUSE, FaultKind.STRAGGLER, FaultKind.SLOW_REQUEST), 0.01),
    },
    pause_ms=400_000,
)
_images: dict[tuple[object, ...], tuple[Image, Mapping[int, InstantTime]]] = {}


class OldTable(TableScenario):
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
            _images[key] = world.image(), dict(self.ledger.acknowledgements)
            return
        image, commit_times = _images[key]
        world.load(image)
        self.ledger.writes[self.first.v] = self.first
        self.ledger.acknowledgements.update(commit_times)
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

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        world.do("historian", self._check_past)

    def _check_values(
        self, env: Env, commit_times: Mapping[int, InstantTime], values: Mapping[str, int]
    ) -> None:
        """A write that was overwritten has no witness any more; the ledger tells when it was."""
        super()._check_values(env, {**self.ledger.acknowledgements, **commit_times}, values)
        self._committed_too = dict(commit_times)  # though nobody was told

    def _check_told(self, commit_times: Mapping[int, InstantTime]) -> None:
        overwritten_writes = self._overwritten()
        acknowledgements = {
            v: t for v, t in self.ledger.acknowledgements.items() if v not in overwritten_writes
        }
        for v, instant in acknowledgements.items():
            if commit_times.get(v) != instant:
                raise Violation(f"write {v} was acknowledged as {instant}, and is not there")

    def _overwritten(self) -> set[int]:
        """Writes all of whose rows may be gone from the latest view."""
        parts = {p for w in self.past if w.operation == "insert_overwrite" for p in w.parts}
        return {v for v, w in self.ledger.writes.items() if set(w.parts) & parts}

    def _acknowledgements(self) -> dict[int, InstantTime]:
        return {**self._committed_too, **self.ledger.acknowledgements}

    def _check_past(self, env: Env) -> None:
        """Reads as of commits, and what changed since them, are right or refused, never wrong."""
        completions = self._completions(env)
        acknowledgements = sorted(self._acknowledgements().items(), key=lambda item: item[1])
        retained_times = [time for _, time in acknowledgements][-_RETAINED_COMMITS:]
        for _, time in acknowledgements:
            rows: dict[str, tuple[str, int]] = {}
            for v, other in sorted(acknowledgements, key=lambda item: completions[item[1]]):
                if other <= time:
                    self.ledger.writes[v].apply(rows)
            try:
                read = self.table(env).to_arrow(columns=["id", "v"], as_of=time)
            except TimelineError as error:
                if time in retained_times:
                    raise Violation(f"as of {time} is refused: {error}") from error
                continue
            self._compare(f"as of {time}", read, {key: v for key, (_, v) in rows.items()})
        self._check_changes(env, completions, retained_times)

    def _check_changes(
        self,
        env: Env,
        completions: Mapping[InstantTime, InstantTime],
        retained_times: list[InstantTime],
    ) -> None:
        acknowledgements = sorted(
            self._acknowledgements().items(), key=lambda item: completions[item[1]]
        )
        for until in retained_times:
            rows: dict[str, tuple[str, int]] = {}
            for v, time in acknowledgements:
                if completions[time] <= completions[until]:
                    self.ledger.writes[v].apply(rows)
            for _, since in acknowledgements:
                if completions[since] > completions[until]:
                    continue
                read = self.table(env).changes(since=since, until=until, columns=["id", "v"])
                new = {v for v, time in acknowledgements if completions[time] > completions[since]}
                right_values = {key: v for key, (_, v) in rows.items() if v in new}
                self._compare(f"changes from {since} to {until}", read, right_values)

    def _compare(self, what: str, read: pa.Table, right_values: Mapping[str, int]) -> None:
        columns = (column.to_pylist() for column in read.columns)
        values = dict(zip(*columns, strict=True))
        if values != right_values:
            raise Violation(f"{what}: found {values}, expected {dict(right_values)}")


# -- clean ----------------------------------------------------------------------------------------


class Clean(OldTable):
    """One who cleans."""

    name = "clean"

    def actors(self) -> Mapping[str, ActorAction]:
        return {"janitor": self._clean}

    def _clean(self, env: Env) -> object:
        return self.table(env).clean()

    def _again(self, env: Env) -> object:
        return self._clean(env)

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        truth = read_stored_table(world.storage)
        first = self.ledger.acknowledgements[self.first.v]
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

    def actors(self) -> Mapping[str, ActorAction]:
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


class Archive(OldTable):
    """One who archives, in two steps so that layers of the history are merged."""

    name = "archive"

    def actors(self) -> Mapping[str, ActorAction]:
        return {"archivist": self._archive}

    def _archive(self, env: Env) -> object:
        table = self.table(env, **{"hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 5})
        table.clean()
        return [table.archive(), self.table(env).archive()]

    def _again(self, env: Env) -> object:
        return self._archive(env)

    def check(self, world: World, outcome: RunOutcome) -> None:
        super().check(world, outcome)
        truth = read_stored_table(world.storage)
        commits = [i for i in truth.completed if i.action.writes_data]
        if not truth.archived_completions or len(commits) > 4 + 1 + len(self.actors()):
            raise Violation(f"{len(commits)} commits are still on the timeline")
        if set(truth.archived_completions) & {i.requested_time for i in truth.instants}:
            raise Violation("an archived instant is still on the timeline")


class ArchiveBesideWriters(Archive):
    """Two who archive, and writers."""

    name = "archive-beside-writers"

    def actors(self) -> Mapping[str, ActorAction]:
        return {
            "w1": self.writer(Write(1, ("a", "z")), Write(3, ("b",))),
            "archivist": self._archive,
            "second": self._archive,
            "reader": self.reader(reads=4, every_ms=300),
        }

    def reader(self, *, reads: int = 8, every_ms: int = 700) -> ActorAction:
        """One who reads again and again; what was overwritten is not missed."""

        def act(env: Env) -> None:
            for _ in range(reads):
                env.clock.sleep(every_ms / 1000)
                overwritten_writes = self._overwritten()
                visible_writes = {
                    v for v in self.ledger.acknowledgements if v not in overwritten_writes
                }
                try:
                    read = self.table(env).to_arrow(columns=["id"])
                except HoodooError:
                    continue
                keys = read.column("id").to_pylist()
                missing = {self.ledger.writes[v].witness for v in visible_writes} - set(keys)
                if missing or len(keys) != len(set(keys)):
                    raise Violation(f"missed {sorted(missing)}, read {sorted(keys)}")

        return act


# -- restore --------------------------------------------------------------------------------------


class Restore(OldTable):
    """One who takes the table back to a savepoint."""

    name = "restore"
    target: ClassVar[int] = 103

    def setup(self, world: World) -> None:
        super().setup(world)
        world.do("keeper", lambda env: self.table(env).savepoint(self._target))

    @property
    def _target(self) -> InstantTime:
        return self.ledger.acknowledgements[self.target]

    def actors(self) -> Mapping[str, ActorAction]:
        return {"operator": self._restore}

    def _restore(self, env: Env) -> object:
        return self.table(env).restore(self._target)

    def _again(self, env: Env) -> object:
        return self._restore(env)

    def check(self, world: World, outcome: RunOutcome) -> None:
        self._mend(world)
        self._forget(world)
        super().check(world, outcome)
        right_writes = {v for v in self.ledger.writes if 100 <= v <= self.target}
        remaining_writes = {v for v in self.ledger.acknowledgements if v > 100 and v != 999}
        if remaining_writes != right_writes:
            raise Violation(f"{sorted(remaining_writes)} are there, not {sorted(right_writes)}")

    def _forget(self, world: World) -> None:
        """What a restore took back was never written."""
        for instant in read_stored_table(world.storage).completed:
            if instant.action is not InstantAction.RESTORE:
                continue
            data = world.storage.read(f"{TIMELINE.active}/{instant_name(instant, layout=2)}")
            metadata = codec.decode(data, instant.action, State.COMPLETED)
            assert isinstance(metadata, RestoreMetadata)
            for v, time in list(self.ledger.acknowledgements.items()):
                if time in metadata.instants_to_rollback:
                    del self.ledger.acknowledgements[v]


class RestoreMor(Restore):
    """The same on a merge-on-read table."""

    name = "restore-mor"
    table_type = "mor"
    options = MappingProxyType({**_SMALL, **_LOGS})


class RestoreBesideWriters(Restore):
    """One who restores, while others write: they are in its way, or it is in theirs."""

    name = "restore-beside-writers"

    def actors(self) -> Mapping[str, ActorAction]:
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
