"""A commit against the raw time of its storage operations, and how it grows with the timeline."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hoodoo
from bench import timeline
from bench.clock import ratio_line
from bench.commits import create, small_rows
from bench.holds import Hold, watched
from hoodoo.api import Table
from hoodoo.env import Env
from hoodoo.errors import StorageError
from hoodoo.model import paths
from hoodoo.storage import open_storage
from hoodoo.storage.base import Storage
from hoodoo.storage.traced import Operation, TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.testing.servers import ServerUnavailable, seaweedfs

REPEAT = 200
REPEAT_S3 = 50
WARM_UP = 6
TIMELINES = (10, 100, 1_000, 5_000)
AIM = 1.5


@dataclass(frozen=True)
class Commit:
    """One commit as it was seen: how long it took, its operations, its two transactions."""

    took_s: float
    operations: Sequence[Operation]
    begin: Hold
    gate: Hold


class Replay:
    """Carries operations out again, on another storage, with as many bytes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._etags: dict[str, str] = {}

    def timed(self, operations: Sequence[Operation]) -> float:
        """Seconds for all of them."""
        started = time.perf_counter()
        for operation in operations:
            if operation.failure is None:
                self._do(operation)
            else:
                with suppress(StorageError):
                    self._do(operation)
        return time.perf_counter() - started

    def _do(self, operation: Operation) -> None:
        storage, path, size = self._storage, operation.path, operation.size_bytes
        match operation.verb:
            case "list":
                for _ in storage.list(path, recursive=path != paths.join(paths.META, "timeline")):
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
            table.upsert(small_rows("w00", value))
            took_s = time.perf_counter() - started
            begin, gate = holds
            assert (begin.purpose, gate.purpose) == ("begin", "commit")
            yield Commit(took_s, tuple(traced.operations), begin, gate)


def measure(where: str, uri: str, options: Mapping[str, str], scratch: str, repeat: int) -> None:
    """Print a table's commits against their operations, replayed turn by turn."""
    for _ in commits(uri, options, WARM_UP):
        pass
    replay = Replay(_copy(open_storage(uri, options), open_storage(scratch, options)))
    seen, raw = [], []
    for commit in commits(uri, options, repeat):
        before, begin, between, gate, after = _cut(commit)
        raw.append([replay.timed(part) for part in (before, begin, between, gate, after)])
        seen.append(commit)
    gates = statistics.median(commit.gate.inside_s for commit in seen)
    print(ratio_line(f"gate, {where}, median of {repeat}", gates, _median(raw, 3), AIM))
    begins = statistics.median(commit.begin.inside_s for commit in seen)
    print(ratio_line(f"begin, {where}", begins, _median(raw, 1)))
    whole = statistics.median(commit.took_s for commit in seen)
    print(ratio_line(f"whole commit, {where}", whole, statistics.median(map(sum, raw))))


def _median(raw: Sequence[Sequence[float]], part: int) -> float:
    return statistics.median(parts[part] for parts in raw)


def _cut(commit: Commit) -> list[Sequence[Operation]]:
    """Operations before, inside and after the two transactions."""
    marks = (0, *commit.begin.marks, *commit.gate.marks, len(commit.operations))
    return [commit.operations[i:j] for i, j in zip(marks, marks[1:], strict=False)]


def _copy(source: Storage, target: Storage) -> Storage:
    for entry in source.list("", recursive=True):
        target.put(entry.path, source.read(entry.path))
    return target


def list_operations(uri: str) -> None:
    """Print the operations of one commit, in the parts that the lock cuts it into."""
    *_, commit = commits(uri, {}, WARM_UP)
    total = Counter(operation.verb for operation in commit.operations)
    told = ", ".join(f"{count} {verb}" for verb, count in total.most_common())
    print(f"operations of a small commit: {len(commit.operations)} ({told})")
    parts = ("plan, lock", "begin", "write, lock", "gate", "clean up")
    for name, operations in zip(parts, _cut(commit), strict=True):
        counts = Counter(f"{operation.verb} {_place(operation)}" for operation in operations)
        text = ", ".join(f"{what} x{n}" if n > 1 else what for what, n in counts.items())
        print(f"  {name}: {text}")


def _place(operation: Operation) -> str:
    """Which kind of object it is about: the first directory with a name of its own."""
    inside, _, rest = operation.path.removeprefix(f"{paths.META}/").partition("/")
    if not operation.path.startswith(paths.META):
        return "data"
    return rest.split("/")[1] if inside == ".aux" else inside.lstrip(".")


def run(folder: Path) -> None:
    """Print the ratios on local disk, the operations, and the growth with the timeline."""
    uri = create(f"{folder}/table")
    measure("local disk", uri, {}, f"file://{folder}/scratch", REPEAT)
    list_operations(create(f"{folder}/other"))
    for instants in TIMELINES:
        table = hoodoo.open_table(timeline.build(folder, instants))
        rows = small_rows("w00", 0).select(["id"])
        table.upsert(rows)
        took = []
        for _ in range(15):
            started = time.perf_counter()
            table.upsert(rows)
            took.append(time.perf_counter() - started)
        print(
            f"commit on a timeline of {instants:>6,} commits"
            f" {statistics.median(took) * 1000:26.1f} ms"
        )


def run_on_s3(folder: Path) -> None:
    """Print the ratios on a local S3 server."""
    try:
        with seaweedfs(folder) as server:
            uri, options = server.uri("table"), server.options
            create(uri, options)
            measure("S3 server", uri, options, server.uri("scratch"), REPEAT_S3)
    except ServerUnavailable as error:
        print(f"gate, S3 server: not measured ({error})")
