"""A commit against the raw time of its storage operations, and how it grows with the timeline."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import hoodoo
from bench import timeline
from bench.clock import ratio_line
from bench.commits import create, small_rows
from bench.holds import Hold, watched
from hoodoo.api.table import Table
from hoodoo.errors import StorageError
from hoodoo.model import paths
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.storage import Storage
from hoodoo.storage.traced import TracedOperation, TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo_testing.servers.object_stores import ServerUnavailable, seaweedfs

REPEAT = 200
REPEAT_S3 = 50
WARM_UP = 6
AIM = 1.5
TIMELINES = (10, 100, 1_000, 5_000)
REPEAT_ON_TIMELINE = 15
PARTS = ("plan, lock", "begin", "write, lock", "gate", "clean up")
"""What the two transactions cut a commit into; each ends with giving the lock back."""


@dataclass(frozen=True)
class Commit:
    """One commit as it was seen: its time, its operations, its two transactions."""

    took_s: float
    operations: Sequence[TracedOperation]
    begin: Hold
    gate: Hold

    def parts(self) -> list[Sequence[TracedOperation]]:
        """The operations of each of `PARTS`."""
        marks = (0, *self.begin.marks, *self.gate.marks, len(self.operations))
        return [self.operations[i:j] for i, j in pairwise(marks)]


class Replay:
    """Carries operations out again, on another storage, with as many bytes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._etags: dict[str, str] = {}

    def timed(self, operations: Sequence[TracedOperation]) -> float:
        """Seconds for all of them; those that failed may fail again."""
        started = time.perf_counter()
        for operation in operations:
            if operation.failure is None:
                self._do(operation)
            else:
                with suppress(StorageError):
                    self._do(operation)
        return time.perf_counter() - started

    def _do(self, operation: TracedOperation) -> None:
        storage, path, size = self._storage, operation.path, operation.size_bytes
        match operation.verb:
            case "list":
                for _ in storage.list(path, recursive=not path.endswith("timeline")):
                    pass
            case "list_directories":
                storage.list_directories(path)
            case "stat":
                storage.stat(path)
            case "exists":
                storage.exists(path)
            case "read":
                storage.read(path)
            case "open_read":
                with storage.open_read(path) as file:
                    file.read()
            case "create":
                self._etags[path] = storage.create(path, bytes(size)).etag
            case "put":
                self._etags[path] = storage.put(path, bytes(size)).etag
            case "replace":
                etag = self._etags.get(path) or storage.stat(path).etag
                self._etags[path] = storage.replace(path, bytes(size), if_match=etag).etag
            case "delete":
                storage.delete(path)
            case "open_write":
                with storage.open_write(path) as stream:
                    stream.write(bytes(size))
            case verb:
                raise ValueError(verb)


def commits(uri: str, options: Mapping[str, str], repeat: int) -> Iterator[Commit]:
    """Small commits on a table, one after the other."""
    traced = TracedStorage(open_storage(uri, options))
    table = Table(open_ref(uri, options, env=Env(traced)))
    with watched(lambda: len(traced.operations)) as holds:
        for value in range(repeat):
            traced.clear()
            holds.clear()
            started = time.perf_counter()
            table.upsert(small_rows("00-0", value))
            took_s = time.perf_counter() - started
            begin, gate = holds
            yield Commit(took_s, tuple(traced.operations), begin, gate)


def measure(where: str, uri: str, options: Mapping[str, str], scratch: str, repeat: int) -> None:
    """Print a table's commits against their operations, replayed turn by turn."""
    *_, last = commits(uri, options, WARM_UP)
    replay = Replay(_copy(open_storage(uri, options), open_storage(scratch, options)))
    seen, raw = [], []
    for commit in commits(uri, options, repeat):
        seen.append(commit)
        raw.append([replay.timed(part) for part in commit.parts()])
    ours = statistics.median(commit.gate.inside_s for commit in seen)
    theirs = statistics.median(parts[3] for parts in raw)
    print(ratio_line(f"gate, {where}, median of {repeat}", ours, theirs, AIM))
    ours = statistics.median(commit.begin.inside_s for commit in seen)
    theirs = statistics.median(parts[1] for parts in raw)
    print(ratio_line(f"begin, {where}", ours, theirs))
    ours = statistics.median(commit.took_s for commit in seen)
    print(ratio_line(f"whole commit, {where}", ours, statistics.median(map(sum, raw))))
    print_operations(last)


def _copy(source: Storage, target: Storage) -> Storage:
    for entry in source.list("", recursive=True):
        target.put(entry.path, source.read(entry.path))
    return target


def print_operations(commit: Commit) -> None:
    """Print what a commit asks of its storage."""
    total = Counter(operation.verb for operation in commit.operations)
    told = ", ".join(f"{count} {verb}" for verb, count in total.most_common())
    print(f"  {len(commit.operations)} operations: {told}")
    for name, operations in zip(PARTS, commit.parts(), strict=True):
        counts = Counter(f"{operation.verb} {_place(operation.path)}" for operation in operations)
        text = ", ".join(f"{what} x{n}" if n > 1 else what for what, n in counts.items())
        print(f"  {name}: {text}")


def _place(path: str) -> str:
    """What kind of object this is: the directory in `.hoodie`, or data."""
    if not path.startswith(paths.META):
        return "data"
    below = path.removeprefix(f"{paths.HOODOO_DIRECTORY}/").removeprefix(f"{paths.META}/")
    return below.split("/")[0].lstrip(".")


def grow(folder: Path) -> None:
    """Print the time of a commit on longer and longer timelines."""
    for instants in TIMELINES:
        table = hoodoo.open_table(timeline.build(folder, instants))
        rows = small_rows("00-0", 0).select(["id"])
        table.upsert(rows)
        took = []
        for _ in range(REPEAT_ON_TIMELINE):
            started = time.perf_counter()
            table.upsert(rows)
            took.append(time.perf_counter() - started)
        ms = statistics.median(took) * 1000
        print(f"commit on a timeline of {instants:>6,} commits {ms:26.1f} ms")


def run(folder: Path) -> None:
    """Print the ratios on local disk, and the growth with the timeline."""
    uri = create(f"{folder}/table").uri
    measure("local disk", uri, {}, f"file://{folder}/scratch", REPEAT)
    grow(folder)


def run_on_s3(folder: Path) -> None:
    """Print the ratios on an S3 server of this machine."""
    try:
        with seaweedfs(folder) as server:
            uri = create(server.uri("table"), server.options).uri
            measure("S3 server", uri, server.options, server.uri("scratch"), REPEAT_S3)
    except ServerUnavailable as error:
        print(f"gate, S3 server: not measured ({error})")
