"""Machines with clocks of their own that have one table open and want its lock."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.concurrency.locks.lock import Lock
from hoodoo.concurrency.locks.table_lock import make_lock
from hoodoo.format.json_files import Lease, decode_lock_file
from hoodoo.model import paths
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from support.hand_clock import HandClock, HandIds, World
from support.lossy_storage import LossyStorage

VALIDITY_S = 60
PUBLISH_S = 10
STORAGE, FILE = "storage", "filesystem"
PATHS = {STORAGE: paths.LOCK, FILE: ".hoodie/lock"}
NAME = "lock-tests"


class Machines:
    """A table, and machines that have it open."""

    def __init__(self, provider: str) -> None:
        self.world = World()
        self.path = PATHS[provider]
        self.options: dict[str, object] = {"hoodie.write.lock.provider": provider}
        self.store = MemoryStorage(NAME)
        create_table(
            self.store.uri,
            schema=pa.schema([("id", pa.int64())]),
            record_key="id",
            env=Env(self.store, self.world.machine(), HandIds("maker")),
        )

    def open(self, host: str, *, wall_ms: int = 0, **settings: object) -> TableRef:
        """The table on a machine of its own, whose wall clock is so far off."""
        clock_of = self.world.machine(wall_ms)
        env = Env(LossyStorage(self.store), clock_of, HandIds(host))
        keys = {f"hoodie.write.lock.{k.replace('__', '.')}": v for k, v in settings.items()}
        return open_ref(self.store.uri, {**self.options, **keys}, env)

    def body(self) -> Lease:
        """The lease that is there."""
        return decode_lock_file(self.store.read(self.path))


def lossy_storage_of(ref: TableRef) -> LossyStorage:
    """The store as this machine reaches it."""
    assert isinstance(ref.env.storage, LossyStorage)
    return ref.env.storage


def clock_of(ref: TableRef) -> HandClock:
    """The clock of this machine."""
    assert isinstance(ref.env.clock, HandClock)
    return ref.env.clock


def take_lock(ref: TableRef, phase: str = "commit") -> Lock:
    """The table's lock, which must be free."""
    lock = make_lock(ref, phase)
    assert lock.try_acquire() is None
    return lock


def seconds_until_taken(machines: Machines, lock: Lock, *, most: int = 400) -> float:
    """How long a contender that tries all the time needs."""
    began = machines.world.seconds
    while lock.try_acquire() is not None:
        machines.world.pass_time(0.25)
        assert machines.world.seconds - began < most, "never taken"
    return machines.world.seconds - began
