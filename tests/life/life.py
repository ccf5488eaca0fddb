"""A life: commits with what is due after each, crashes, and a model that knows what is right."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import process_time
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from support.writer_machines import SCHEMA, Machine, PowerCut

from hoodoo.model.instant import InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.upkeep import ServiceOutcome, run_due_services
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.timeline import read_commit
from life.crashing_storage import MortalFleet, MortalStorage

Model = dict[str, int]
PARTITIONS = 2
RETAINED = 10
_INLINE = LocalEngine(threads=1)

_ALL_ON = {
    "hoodie.clean.automatic": True,
    "hoodie.archive.automatic": True,
    "hoodie.clean.commits.retained": RETAINED,
    "hoodie.compact.inline": True,
}
_CLUSTERED = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 20}
_LOGS_COMPACTED = {
    "hoodie.log.compaction.inline": True,
    "hoodie.log.compaction.blocks.threshold": 3,
}
KINDS: Mapping[str, tuple[str, Mapping[str, object]]] = MappingProxyType(
    {
        "cow": ("cow", _ALL_ON),
        "cow, clustered": ("cow", {**_ALL_ON, **_CLUSTERED, "hoodie.parquet.small.file.limit": 0}),
        "mor": ("mor", {**_ALL_ON, **_LOGS_COMPACTED, **_CLUSTERED}),
    }
)
OFF = MappingProxyType({"hoodie.table.services.enabled": False})


@dataclass(frozen=True, slots=True)
class Sample:
    """A table and its cost after a commit."""

    instants: int
    files: int
    megabytes: float
    """Without the history, which keeps every instant there ever was."""
    history_megabytes: float
    upsert_s: float
    read_s: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a life goes."""

    commits: int
    keys: int = 400
    rows: int = 40
    """Of each commit."""
    crash_rate: float = 0.05
    delete_rate: float = 0.1
    upkeep_every: int = 50
    """After so many commits, a machine of its own looks after the table; 0: never."""
    checks_every: int = 5
    """After so many commits, reads of the past are compared too."""
    seed: int = 1


@dataclass
class Life:
    """A table, who writes to it, and what it must hold."""

    kind: str
    course: Course
    options: Mapping[str, object] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    crashes: int = 0
    reads: int = 0
    """Reads of the past that were compared."""
    failures: list[str] = field(default_factory=list)
    """Services that failed, and not because others were faster."""

    def __post_init__(self) -> None:
        table_type, settings = KINDS[self.kind]
        self.fleet = MortalFleet(table_type, **{**settings, **self.options})
        self.random = Random(self.course.seed)
        self.hosts = 0
        self.writer = self._next_machine()
        self.reader = self.fleet.machine("reader")
        self.model: Model = {}
        self.models: dict[InstantTime, Model] = {}
        """What the table held after each commit that can be asked for."""
        self.witness: Callable[[MemoryStorage, Sequence[Model]], None] = lambda store, may_be: None
        """Looks at the table after each commit and each crash, and knows what it may hold."""

    def _next_machine(self) -> Machine:
        self.hosts += 1
        return self.fleet.machine(f"host{self.hosts}")

    def live(self) -> Iterator[int]:
        """Commit after commit; each number is told when all that is checked after it was right."""
        for number in range(self.course.commits):
            changed = self._draw_rows(number)
            upsert_s = self._write(changed)
            self.fleet.world.pass_time(self.random.choice((5, 20, 45)))
            if self.course.upkeep_every and (number + 1) % self.course.upkeep_every == 0:
                self._look_after()
            found, read_s = self._read()
            assert found == self.model, f"{self.kind}, commit {number}: {differ(found, self.model)}"
            self.witness(self.fleet.store, [self.model])
            if number % self.course.checks_every == 0:
                self._check_past()
            self.samples.append(self._measure(upsert_s, read_s))
            yield number

    # -- what is done ---------------------------------------------------------------------------

    def fill(self) -> None:
        """Write all rows there can be."""
        rows = {f"k{key}": -1 for key in range(self.course.keys)}
        _upsert(self.writer, rows)()
        self._note(rows)

    def _draw_rows(self, number: int) -> Model:
        keys = self.random.sample(range(self.course.keys), self.course.rows)
        return {f"k{key}": number for key in keys}

    def _write(self, changed: Model) -> float:
        """Upsert, or now and then delete; crashes and tries again until it is done. CPU seconds."""
        gone: list[str] = []
        if self.model and self.random.random() < self.course.delete_rate:
            gone = self.random.sample(sorted(self.model), 20)
        after = {**self.model, **changed}
        if gone:
            after = {key: v for key, v in self.model.items() if key not in gone}
        while True:
            writer = self.writer
            do = _delete(writer, gone) if gone else _upsert(writer, changed)
            if self.random.random() < self.course.crash_rate:
                lands = self.random.random() < 0.5
                _power(writer).dies_after(self.random.randrange(1, 90), lands=lands)
            began = _cpu()
            try:
                do()
            except PowerCut:
                if self._recover_from_crash(after):
                    break
                continue
            _power(writer).lives_on()
            seconds = process_time() - began
            self._note(after)
            return seconds
        return process_time() - began

    def _recover_from_crash(self, after: Model) -> bool:
        """Another machine goes on; whether the write was committed nevertheless."""
        self.crashes += 1
        self.witness(self.fleet.store, [self.model, after])
        self.fleet.die(self.writer)
        self.writer = self._next_machine()
        if self.random.random() < 0.5:
            self._look_after()
        found, _ = self._read()
        assert found in (self.model, after), f"{self.kind}: {differ(found, after)} after a crash"
        if found == self.model:
            return False
        self._note(after)
        return True

    def _look_after(self) -> None:
        """What `hoodoo upkeep` does, on a machine of its own."""
        self.hosts += 1
        machine = self.fleet.machine(f"upkeep{self.hosts}")
        for done in run_due_services(machine.ref, _INLINE):
            if done.outcome is ServiceOutcome.FAILED:
                self.failures.append(done.text)
        self.fleet.world.clocks.remove(machine.clock)

    # -- what must be right -----------------------------------------------------------------------

    def _note(self, after: Model) -> None:
        self.model = after
        self.models[self._last_write()] = after
        for time in list(self.models)[: -4 * RETAINED]:
            del self.models[time]

    def _last_write(self) -> InstantTime:
        """The latest completed instant that is no table service's."""
        ref = self.reader.ref
        for commit in reversed(ref.load_timeline().commits.instants):
            metadata = read_commit(ref.env, ref.properties.timeline_paths, commit)
            if not metadata.operation.is_table_service:
                return commit.requested_time
        raise AssertionError("no write is on the timeline")

    def _read(self) -> tuple[Model, float]:
        began = _cpu()
        read = self.reader.table.to_arrow(columns=["id", "v"])
        seconds = process_time() - began
        return _as_model(read), seconds

    def _check_past(self) -> None:
        """Reads as of commits that are kept, and of what changed between them."""
        commits = self.reader.ref.load_timeline().commits.instants[-RETAINED:]
        kept = [c.requested_time for c in commits if c.requested_time in self.models]
        table = self.reader.table
        for time in self.random.sample(kept, min(2, len(kept))):
            found = _as_model(table.to_arrow(columns=["id", "v"], as_of=time))
            assert found == self.models[time], f"as of {time}: {differ(found, self.models[time])}"
        since, until = sorted(self.random.choices(kept, k=2))
        found = _as_model(table.changes(since=since, until=until, columns=["id", "v"]))
        before, after = self.models[since], self.models[until]
        changed = {key: v for key, v in after.items() if before.get(key) != v}
        assert found == changed, f"from {since} to {until}: {differ(found, changed)}"
        self.reads += 3

    def _measure(self, upsert_s: float, read_s: float) -> Sample:
        entries = list(self.fleet.store.list("", recursive=True))
        size = sum(entry.size_bytes for entry in entries)
        history = self.reader.ref.properties.timeline_paths.history
        old = sum(entry.size_bytes for entry in entries if entry.path.startswith(f"{history}/"))
        timeline = self.reader.ref.load_timeline()
        sizes = (size - old) / 1e6, old / 1e6
        return Sample(len(timeline), len(entries), *sizes, upsert_s, read_s)


def differ(found: Model, expected: Model) -> dict[str, tuple[int | None, int | None]]:
    """Keys with another value than expected, as (found, expected)."""
    pairs = {key: (found.get(key), expected.get(key)) for key in {*found, *expected}}
    return {key: pair for key, pair in sorted(pairs.items()) if pair[0] != pair[1]}


def _as_model(read: pa.Table) -> Model:
    keys = read["id"].to_pylist()
    assert len(keys) == len(set(keys)), "a key is there twice"
    return dict(zip(keys, read["v"].to_pylist(), strict=True))


def _part(key: str) -> str:
    return f"p{int(key[1:]) % PARTITIONS}"


def _upsert(machine: Machine, rows: Model) -> Callable[[], Any]:
    columns = [list(rows), [_part(key) for key in rows], list(rows.values())]
    table = pa.table(columns, schema=SCHEMA)
    return lambda: machine.table.upsert(table)


def _delete(machine: Machine, keys: list[str]) -> Callable[[], Any]:
    rows = pa.table([keys, [_part(key) for key in keys], [0] * len(keys)], schema=SCHEMA)
    return lambda: machine.table.delete(rows)


def _power(machine: Machine) -> MortalStorage:
    storage: object = machine.storage
    assert isinstance(storage, MortalStorage)
    return storage


def _cpu() -> float:
    gc.collect(0)
    return process_time()
