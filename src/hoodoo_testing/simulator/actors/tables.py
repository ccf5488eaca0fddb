"""Scenarios about a table: writers whose rows are known, and a model of what must come of them.

Every write carries a key of its own (its witness), which tells whether, and when, it was committed,
whatever its writer was told. From that the rows of the table follow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.errors import CommitUnknown, HoodooError
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.table.create import create_table
from hoodoo.table.history import load_history
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit
from hoodoo.write.commit.publish import CommitResult
from hoodoo_testing.simulator.checks.invariants import (
    Guard,
    check_always,
    check_plans,
    check_rollbacks,
    check_settled,
    check_undisputed,
)
from hoodoo_testing.simulator.checks.truth import read_stored_table
from hoodoo_testing.simulator.scenario import RunOutcome, Scenario
from hoodoo_testing.simulator.world.faults import FaultKind, ProcessCrash
from hoodoo_testing.simulator.world.schedule import Chances, all_faults
from hoodoo_testing.simulator.world.stage import Settings, Violation
from hoodoo_testing.simulator.world.world import ActorAction, Image, World

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
EXPIRY_MS = 60_000
LEASE_MS = 20_000
IN_FLIGHT_MS = EXPIRY_MS - 10_000
"""What a request may take at most: the one assumption about time is that it is under an expiry."""
OPTIONS: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": EXPIRY_MS // 3,
    "hoodie.client.heartbeat.tolerable.misses": 3,
    "hoodie.write.lock.storage.validity.timeout.secs": LEASE_MS // 1000,
    "hoodie.write.lock.storage.renew.interval.secs": 2,
    "hoodie.write.lock.wait_time_ms_between_retry": 2_000,
    "hoodie.parquet.bloom.filter.enabled": False,
    "hoodie.parquet.compression.codec": "uncompressed",
    "hoodie.write.num.retries.on.conflict.failures": 4,
    # What the gate is for; scenarios of early detection switch it on.
    "hoodie.write.concurrency.early.conflict.detection.enable": False,
    # Scenarios say themselves who compacts, cleans and archives.
    "hoodie.compact.inline": False,
    "hoodie.clean.automatic": False,
    "hoodie.archive.automatic": False,
}
_images: dict[tuple[object, ...], Image] = {}


@dataclass(frozen=True, slots=True)
class Write:
    """Rows of one write; `v` tells them from those of all others."""

    v: int
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ("p",)
    """The partitions of the keys, in turn."""
    operation: str = "upsert"

    @property
    def witness(self) -> str:
        return f"witness-{self.v}"

    @property
    def places(self) -> dict[str, str]:
        """Each key with its partition."""
        keys = [*self.keys, self.witness]
        return {key: self.parts[n % len(self.parts)] for n, key in enumerate(keys)}

    def apply(self, rows: dict[str, tuple[str, int]]) -> None:
        """Do to rows (partition and value by key) what this write does to a table."""
        if self.operation in ("insert_overwrite", "delete_partitions"):
            for key in [key for key, (part, _) in rows.items() if part in self.parts]:
                del rows[key]
        if self.operation != "delete_partitions":
            rows |= {key: (part, self.v) for key, part in self.places.items()}

    def rows(self) -> pa.Table:
        """What is written."""
        places = self.places
        columns = [list(places), list(places.values()), [self.v] * len(places)]
        return pa.table(columns, schema=SCHEMA)


@dataclass
class Ledger:
    """What writers were told of each write: acknowledged, or refused; nothing if unknown."""

    writes: dict[int, Write] = field(default_factory=dict)
    acknowledgements: dict[int, InstantTime] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)


class TableScenario(Scenario):
    """A table with some rows, and actors that write to it and mend it."""

    table_type: ClassVar[str] = "cow"
    options: ClassVar[Mapping[str, object]] = {}
    first: ClassVar[Write] = Write(0, ("a", "b", "c"))
    settings = Settings(in_flight_ms=IN_FLIGHT_MS)
    is_watched = True
    """Whether each mutation is checked as it lands."""
    is_mixed: ClassVar[bool] = False
    """Whether engines that know no head are at work."""
    chances = Chances(all_faults(0.02), pause_ms=400_000, jump_ms=6 * 3_600_000)

    def __init__(self) -> None:
        self.ledger = Ledger()

    @abstractmethod
    def actors(self) -> Mapping[str, ActorAction]: ...

    # -- the world ----------------------------------------------------------------------------

    def setup(self, world: World) -> None:
        """A table with the first write in it, made once and then taken over by each run."""
        key = (self.table_type, tuple(self.options.items()), self.first, self.preparation)
        if key not in _images:
            world.do("founder", self._create_table)
            _images[key] = world.image()
        else:
            world.load(_images[key])
        self.ledger.writes[self.first.v] = self.first
        truth = read_stored_table(world.storage)
        self.ledger.acknowledgements[self.first.v] = truth.completed[0].requested_time
        if self.is_watched:
            world.watch(Guard(world, is_mixed=self.is_mixed))

    def _create_table(self, env: Env) -> None:
        create_table(
            env.storage.uri,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            table_type=self.table_type,
            env=env,
        )
        self.table(env).insert(self.first.rows())
        self.prepare(env)

    @property
    def preparation(self) -> object:
        """What `prepare` does, so that runs that prepare the same share an image."""
        return None

    def prepare(self, env: Env) -> None:
        """What else is there when the actors begin."""

    def table(self, env: Env, **options: object) -> Table:
        """The table as a process opens it."""
        all_options = {**OPTIONS, **self.options, **options}
        return Table(open_ref(env.storage.uri, all_options, env), LocalEngine(threads=1))

    # -- actors -------------------------------------------------------------------------------

    def writer(self, *writes: Write, **options: object) -> ActorAction:
        """An actor that does these writes, one after the other."""
        for write in writes:
            self.ledger.writes[write.v] = write

        def act(env: Env) -> None:
            table = self.table(env, **options)
            for write in writes:
                self._write(table, write)

        return act

    def later(self, write: Write, *, after_ms: int) -> ActorAction:
        """An actor that does one write, after a while."""
        self.ledger.writes[write.v] = write

        def act(env: Env) -> None:
            env.clock.sleep(after_ms / 1000)
            self._write(self.table(env), write)

        return act

    def _write(self, table: Table, write: Write) -> None:
        do: Callable[[object], CommitResult] = getattr(table, write.operation)
        drops = write.operation == "delete_partitions"
        try:
            result = do([f"part={part}" for part in write.parts] if drops else write.rows())
        except CommitUnknown:
            return
        except HoodooError as error:
            self.ledger.refusals[write.v] = str(error)
            return
        self.ledger.acknowledgements[write.v] = result.instant

    def medic(self, *, after_ms: int = 0) -> ActorAction:
        """An actor that recovers the table."""

        def act(env: Env) -> object:
            env.clock.sleep(after_ms / 1000)
            return self.table(env).recover()

        return act

    def reader(self, *, reads: int = 8, every_ms: int = 700) -> ActorAction:
        """An actor that reads again and again: each key once, and all that was acknowledged."""

        def act(env: Env) -> None:
            for _ in range(reads):
                env.clock.sleep(every_ms / 1000)
                witnesses = [self.ledger.writes[v].witness for v in self.ledger.acknowledgements]
                try:
                    read = self.table(env).to_arrow(columns=["id"])
                except HoodooError:
                    continue
                keys = read.column("id").to_pylist()
                if len(keys) != len(set(keys)):
                    raise Violation(f"a key was read twice: {sorted(keys)}")
                if missing := sorted(set(witnesses) - set(keys)):
                    raise Violation(f"acknowledged, and not read: {missing}")

        return act

    # -- what must hold -----------------------------------------------------------------------

    def check(self, world: World, outcome: RunOutcome) -> None:
        for error in outcome.errors.values():
            if not isinstance(error, HoodooError | ProcessCrash | KeyboardInterrupt):
                raise error
        truth = read_stored_table(world.storage)
        if not self.is_mixed:
            check_always(truth)
        check_rollbacks(truth, outcome.steps)
        self._mend(world)
        truth = read_stored_table(world.storage)
        check_always(truth)
        check_plans(truth)
        if not self.is_mixed:
            check_undisputed(truth)
        check_settled(world.storage, truth)
        world.do("reader", self._check_rows)
        world.do("successor", self.writer(Write(999, ("a", "d"))))
        if 999 not in self.ledger.acknowledgements:
            raise Violation(f"nobody can write any more: {self.ledger.refusals[999]}")

    def _mend(self, world: World) -> None:
        """Recover until all is quiet: rollbacks, then the two sweeps."""
        if FaultKind.JUMP_STORE in self.chances.rates:  # files may be dated far ahead
            world.pass_time(self.chances.at_most * self.chances.jump_ms)
        for _ in range(4):
            world.pass_time(EXPIRY_MS + LEASE_MS)
            world.do("mender", lambda env: self.table(env).recover())

    def _check_rows(self, env: Env) -> None:
        read = self.table(env).to_arrow(columns=["_hoodie_commit_time", "id", "v"])
        rows_by_key: dict[str, tuple[InstantTime, int]] = {}
        for time, key, v in zip(*(column.to_pylist() for column in read.columns), strict=True):
            if key in rows_by_key:
                raise Violation(f"{key} is there twice")
            rows_by_key[key] = (time, v)
        commit_times = self._commit_times(env, rows_by_key)
        self._check_told(commit_times)
        self._check_values(env, commit_times, {key: v for key, (_, v) in rows_by_key.items()})

    def _commit_times(
        self, env: Env, rows_by_key: Mapping[str, tuple[InstantTime, int]]
    ) -> dict[int, InstantTime]:
        """Which writes were committed, and by which instant; `rows_by_key` are the table's rows."""
        return {
            v: rows_by_key[write.witness][0]
            for v, write in self.ledger.writes.items()
            if write.witness in rows_by_key
        }

    def _check_told(self, commit_times: Mapping[int, InstantTime]) -> None:
        for v, instant in self.ledger.acknowledgements.items():
            if commit_times.get(v) != instant:
                raise Violation(f"write {v} was acknowledged as {instant}, and is not there")
        for v, reason in self.ledger.refusals.items():
            if v in commit_times:
                raise Violation(f"write {v} was refused, and is there: {reason}")

    def _completions(self, env: Env) -> dict[InstantTime, InstantTime]:
        """When each instant was completed, archived ones too."""
        ref = open_ref(env.storage.uri, OPTIONS, env)
        history = load_history(env, ref.properties.timeline_paths)
        archived_completions = {
            i.requested_time: i.completion_time or i.requested_time for i in history
        }
        return archived_completions | {
            i.requested_time: i.completion_or_requested_time for i in ref.load_timeline().completed
        }

    def _check_values(
        self, env: Env, commit_times: Mapping[int, InstantTime], values: Mapping[str, int]
    ) -> None:
        """Each key has the value of the last write that was committed with it."""
        ref = open_ref(env.storage.uri, OPTIONS, env)
        timeline, timeline_paths = ref.load_timeline(), ref.properties.timeline_paths
        for instant in timeline.commits:
            is_service = read_commit(env, timeline_paths, instant).operation.is_table_service
            if instant.requested_time not in commit_times.values() and not is_service:
                raise Violation(f"{instant} is completed, and its rows are not there")
        completions = self._completions(env)
        rows: dict[str, tuple[str, int]] = {}
        for v, _ in sorted(commit_times.items(), key=lambda item: completions[item[1]]):
            self.ledger.writes[v].apply(rows)
        right_values = {key: v for key, (_, v) in rows.items()}
        if values != right_values:
            keys = sorted({*values, *right_values})
            pairs = {key: (values.get(key), right_values.get(key)) for key in keys}
            wrong = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
            raise Violation(f"rows are wrong, as (found, expected): {wrong}")
