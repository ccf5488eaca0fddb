"""One table in memory, and a fleet of machines that work on it, with clocks moved by hand."""

from __future__ import annotations

import itertools
import re

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.concurrency.transactions.instants import open_instant
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from support.faulty import FaultyStorage
from support.hand_clock import HandClock, HandIds, World

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
INTERVAL_MS, MISSES = 10_000, 3
EXPIRY_S = INTERVAL_MS * MISSES / 1000
_names = itertools.count(1)


class Machine:
    """One machine's view of the table."""

    def __init__(self, ref: TableRef, clock: HandClock, storage: FaultyStorage) -> None:
        self.ref = ref
        self.clock = clock
        self.storage = storage
        self.table = Table(ref, LocalEngine(threads=1))

    def rows(self) -> dict[str, int]:
        read = self.table.to_arrow(columns=["id", "v"])
        return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


class Fleet:
    """A table and the machines that use it; the store's clock is true time plus `store_ms`."""

    def __init__(
        self,
        table_type: str = "cow",
        store_ms: int = 0,
        partition_by: str | None = "part",
        **options: object,
    ) -> None:
        self.world = World()
        self.true = self.world.machine()
        self.store = MemoryStorage(
            f"fleet-{next(_names)}", now_ms=lambda: self.true.now_ms() + store_ms
        )
        self.options = {
            # What a write does is counted and cut off, without what comes after it.
            "hoodie.clean.automatic": False,
            "hoodie.archive.automatic": False,
            # The younger of two writers gets to the gate first, in most tests.
            "hoodie.write.concurrency.early.conflict.detection.enable": False,
            "hoodie.client.heartbeat.interval_in_ms": INTERVAL_MS,
            "hoodie.client.heartbeat.tolerable.misses": MISSES,
            **options,
        }
        create_table(
            self.store.uri,
            schema=SCHEMA,
            record_key="id",
            partition_by=partition_by,
            table_type=table_type,
            env=Env(self.store, self.true, HandIds("creator")),
        )

    def machine(self, host: str, *, wall_ms: int = 0, **options: object) -> Machine:
        """A machine of its own, with the table opened."""
        clock = self.world.machine(wall_ms)
        storage = FaultyStorage(self.store)
        env = Env(storage, clock, HandIds(host))
        ref = open_ref(self.store.uri, {**self.options, **options}, env)
        return Machine(ref, clock, storage)

    def die(self, machine: Machine) -> None:
        """The machine does nothing any more, and enough time passes for others to notice."""
        machine.clock.is_stopped = True
        self.world.pass_time(2 * EXPIRY_S + 200)

    def data_files(self) -> list[str]:
        found = (entry.path for entry in self.store.list("", recursive=True))
        return [path for path in found if path.endswith(".parquet") or ".log." in path]


def rows(part: str = "a", **values: int) -> pa.Table:
    """Rows of one partition, from keys to values."""
    columns = [list(values), [part] * len(values), list(values.values())]
    return pa.table(columns, schema=SCHEMA)


def begin_commit(machine: Machine) -> Attempt:
    """An inflight commit of this machine, with its heartbeat."""
    with transaction(machine.ref, "begin") as txn:
        time, heartbeat = open_instant(txn, machine.ref, kind="insert")
        requested = instants.create_requested_file(txn, time, Action.COMMIT)
        return Attempt(instants.create_inflight_file(txn, requested, CommitMetadata()), heartbeat)


COMPLETED = r"(?<!metadata/\.hoodie)/timeline/\d+_\d+\.\w+$"
"""Matches the files of completed instants."""


class PowerCut(BaseException):
    """The machine is gone in the middle of what it did."""


def cut_power_at(machine: Machine, verb: str, part: str) -> None:
    """The machine dies when it is about to do this, and does nothing any more."""
    dead = False

    def before(name: str, path: str) -> None:
        nonlocal dead
        dead = dead or bool(re.fullmatch(verb, name) and re.search(part, path))
        if dead:
            raise PowerCut

    machine.storage.before(before)
