"""Early detection's look at the markers of another write, against reading the same files raw."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from bench import commits
from bench.clock import ratio_line
from hoodoo.concurrency.conflicts.announced_files import MarkerFilter, PeerMarkers
from hoodoo.concurrency.conflicts.early_detection import DetectionSettings, EarlyConflictDetector
from hoodoo.concurrency.conflicts.rules import (
    STRATEGIES,
    GroupEffect,
    InstantKind,
    PublishingInstant,
)
from hoodoo.concurrency.markers import announce
from hoodoo.config.concurrency import ConflictStrategy, DetectionStrategy, MarkerType
from hoodoo.errors import EarlyConflict
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import BaseFileName, FileId, MarkerKind, MarkerName, WriteToken
from hoodoo.model.paths import PartitionPath, marker_directory
from hoodoo.read.snapshot import take_snapshot
from hoodoo.recovery.recover import roll_back_own_attempt
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write.commit.begin import StartedWrite, begin
from hoodoo.write.planning.assignment import Assignment

MARKERS, BATCHES, PARTITIONS = 1_500, 20, 20
TURNS = 51
AIM = 3.0
STRATEGY = ConflictStrategy.SIMPLE
DETECTION = DetectionSettings(
    DetectionStrategy.ASYNC, checks_commits=True, delay_ms=0, period_ms=1_000
)


class Scene:
    """A live write with its markers, and what a younger one is about: as many other groups."""

    def __init__(self, ref: TableRef, traced: TracedStorage, older: StartedWrite) -> None:
        self.ref, self.traced, self.older = ref, traced, older
        self.planned_on = ref.load_timeline()
        self.markers = [_marker(older.time, group) for group in make_groups()]
        self.mine = self._about(make_groups())
        self.loser = self._about([*make_groups()[1:], _group_of(self.markers[-1])])

    @property
    def directory(self) -> Path:
        """Where the markers of the older write are."""
        return Path(self.ref.uri.removeprefix("file://")) / marker_directory(self.older.time)

    def announce(self, type: MarkerType) -> None:
        """Have the older write announce its files."""
        env, size = self.ref.env, MARKERS // BATCHES
        for number in range(BATCHES):
            part = self.markers[number * size : (number + 1) * size]
            announce(env, self.older.time, part, type=type, number=number)

    def detector(self, mine: PublishingInstant) -> EarlyConflictDetector:
        """One that has not looked yet."""
        return EarlyConflictDetector(
            self.ref, mine, STRATEGY, DETECTION, planned_on=self.planned_on
        )

    def _about(self, groups: Sequence[FileGroupId]) -> PublishingInstant:
        later = InstantTime(f"{int(self.older.time) + 1:017d}")
        return PublishingInstant(
            later, InstantKind.INGESTION, dict.fromkeys(groups, GroupEffect.REWRITE)
        )


@contextmanager
def open_scene(uri: str) -> Iterator[Scene]:
    """A table of `commits` with one write in progress; at the end it is rolled back."""
    traced = TracedStorage(open_storage(uri))
    ref = open_ref(uri, env=Env(traced))
    snapshot = take_snapshot(ref)
    older = begin(ref, Assignment(OperationType.BULK_INSERT, snapshot, commits.SCHEMA))
    try:
        yield Scene(ref, traced, older)
    finally:
        roll_back_own_attempt(ref, older.attempt)


def make_groups() -> list[FileGroupId]:
    """File groups that nobody else has, spread over partitions."""
    return [
        FileGroupId(
            PartitionPath(f"date=2026-11-{n % PARTITIONS:02d}"), FileId(f"{uuid.uuid4()}-0")
        )
        for n in range(MARKERS)
    ]


def _make_file_id() -> FileId:
    return FileId(f"{uuid.uuid4()}-0")


def _marker(time: InstantTime, group: FileGroupId) -> MarkerName:
    name = BaseFileName(group.file_id, WriteToken("0-1-0"), time)
    return MarkerName(f"{group.partition}/{name}", MarkerKind.MERGE)


def _group_of(marker: MarkerName) -> FileGroupId:
    partition, _, name = marker.data_file.rpartition("/")
    return FileGroupId(PartitionPath(partition), FileId(name.partition("_")[0]))


def take_turns(sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Best seconds of each side, turn by turn: a look is too short to be shared with others."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, side in sides.items():
            started = perf_counter()
            side()
            took[name].append(perf_counter() - started)
    return {name: min(seconds) for name, seconds in took.items()}


def _files(directory: Path) -> list[Path]:
    return [Path(top) / name for top, _, names in os.walk(directory) for name in names]


def _make_raw_reader(directory: Path) -> Callable[[], int]:
    """Reads every file below a directory, whose names are known: nobody can be faster."""
    paths = [str(path) for path in sorted(_files(directory))]

    def read() -> int:
        size = 0
        for path in paths:
            with open(path, "rb") as file:
                size += len(file.read())
        return size

    return read


def measure(scene: Scene, layout: str) -> None:
    """Print what a look costs, and which operations it is."""
    ref, time, directory = scene.ref, scene.older.time, scene.directory
    wanted = MarkerFilter.of(scene.mine, STRATEGIES[STRATEGY])
    warm, seen = PeerMarkers(ref.env), scene.detector(scene.mine)
    warm.find_touches(time, wanted)
    seen.look()
    fastest = take_turns(
        {
            "raw": _make_raw_reader(directory),
            "list": lambda: list(ref.env.storage.list(marker_directory(time), recursive=True)),
            "first": lambda: PeerMarkers(ref.env).find_touches(time, wanted),
            "again": lambda: warm.find_touches(time, wanted),
            "look": lambda: scene.detector(scene.mine).look(),
            "look again": seen.look,
        }
    )
    raw, listing = fastest["raw"], fastest["list"]
    print(f"{MARKERS:,} {layout}")
    print(ratio_line("  first pass : raw reads", fastest["first"], raw, AIM))
    print(ratio_line("  first pass : one listing and raw reads", fastest["first"], raw + listing))
    print(ratio_line("  unchanged pass : one listing", fastest["again"], listing))
    print(ratio_line("  whole first look : raw reads", fastest["look"], raw))
    print(ratio_line("  whole look, unchanged : one listing", fastest["look again"], listing))
    cold = PeerMarkers(ref.env)
    _print_operations(scene, "first pass", lambda: cold.find_touches(time, wanted))
    _print_operations(scene, "unchanged pass", lambda: cold.find_touches(time, wanted))
    _print_operations(scene, "whole look, unchanged", seen.look)
    _check_that_it_finds(scene)


def _print_operations(scene: Scene, what: str, side: Callable[[], object]) -> None:
    scene.traced.clear()
    side()
    counts = ", ".join(f"{n} {verb}" for verb, n in scene.traced.counts().most_common())
    print(f"  {what}: {counts}")


def _check_that_it_finds(scene: Scene) -> None:
    """A look that costs little because it sees nothing is no look."""
    try:
        scene.detector(scene.loser).look()
    except EarlyConflict:
        return
    raise AssertionError("one file group in common was not found")


def run(folder: Path) -> None:
    """Print the ratios for both layouts of markers."""
    for layout, words in (
        (MarkerType.BATCHED, f"markers in {BATCHES} batches"),
        (MarkerType.DIRECT, "direct markers"),
    ):
        uri = commits.create(f"{folder}/{layout.name.lower()}").uri
        with open_scene(uri) as scene:
            scene.announce(layout)
            measure(scene, words)
