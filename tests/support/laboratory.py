"""One table in memory, and machines of which one can be held up before any storage operation.

A test names the operation by verb and path. Then others work beside the machine, or it dies, or its
request gets no answer and lands when the test says so. Time is moved by hand, and costs nothing.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.errors import HoodooError, OutcomeUnknown, StorageError
from hoodoo.model.paths import HEAD, LOCK, STAGING
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.indexing.create import add_metadata_partitions, default_metadata_partitions
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.storage import Storage, WriteStream
from hoodoo.storage.write_streams import BufferedWrite
from hoodoo.table.create import create_table
from hoodoo.table.ref import open_ref
from support.hand_clock import HandIds, World
from support.writer_machines import PowerCut

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
MINUTE_S = 60.0
NO_SERVICES = {
    "hoodie.compact.inline": False,
    "hoodie.clean.automatic": False,
    "hoodie.archive.automatic": False,
}
"""Writes do nothing but write; tests run the services."""
HEAD_FILE = f"^{HEAD}$"
LOCK_FILE = f"^{LOCK}$"
STAGED_FILES = f"^{STAGING}/"

Row = tuple[str, str, int]
Request = Callable[[], Any]

_VERBS = frozenset(
    {
        *("list", "list_directories", "stat", "exists", "read", "read_version", "open_read"),
        *("create", "put", "replace", "delete"),
    }
)
_LATENCY_S = 0.002
_names = itertools.count(1)


@dataclass
class _Event:
    """What happens to one request of a machine: the one after `skip` others like it."""

    verb: str
    part: str
    act: Callable[[Request], Any]
    skip: int

    def hits(self, verb: str, path: str) -> bool:
        if verb != self.verb or not re.search(self.part, path):
            return False
        self.skip -= 1
        return self.skip < 0


class NeverHappened(Exception):
    """The story of a test went another way: what it is about was not tried at all."""


class _Requests:
    """The store as one machine reaches it."""

    def __init__(self, inner: Storage, send: Callable[[str, str, Request], Any]) -> None:
        self._inner = inner
        self._send = send

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._inner, name)
        if name not in _VERBS:
            return function

        def call(path: str, *arguments: Any, **options: Any) -> Any:
            return self._send(name, path, lambda: function(path, *arguments, **options))

        return call

    def open_write(self, path: str) -> WriteStream:
        return BufferedWrite(path, self.create)


class Machine:
    """A machine with the table open; each event happens once, to the next request that fits."""

    def __init__(
        self, laboratory: Laboratory, host: str, wall_ms: int, options: Mapping[str, object]
    ) -> None:
        self._laboratory = laboratory
        self._events: list[_Event] = []
        self._is_dead = False
        self.clock = laboratory.world.machine(wall_ms)
        self.env = Env(_Requests(laboratory.store, self._send), self.clock, HandIds(host))
        self.ref = open_ref(laboratory.store.uri, options, self.env)
        self.table = Table(self.ref, LocalEngine(threads=1))

    def let_others_work_before(
        self, verb: str, part: str, work: Callable[[], object], *, skip: int = 0
    ) -> None:
        """Others do something first. The heartbeats of this machine go on meanwhile."""

        def act(request: Request) -> Any:
            work()
            return request()

        self._events.append(_Event(verb, part, act, skip))

    def stand_still_before(
        self,
        verb: str,
        part: str,
        work: Callable[[], object],
        *,
        skip: int = 0,
        dies_after: bool = False,
    ) -> None:
        """The same, with the whole machine paused: nor do its heartbeats and leases go on."""

        def act(request: Request) -> Any:
            self.clock.is_stopped = True
            work()
            self.clock.is_stopped = False
            answer = request()
            if dies_after:
                self._die()
            return answer

        self._events.append(_Event(verb, part, act, skip))

    def let_others_work_after(
        self, verb: str, part: str, work: Callable[[], object], *, skip: int = 0
    ) -> None:
        """Others do something when the request has landed, and its answer is under way."""

        def act(request: Request) -> Any:
            answer = request()
            work()
            return answer

        self._events.append(_Event(verb, part, act, skip))

    def die_before(self, verb: str, part: str, *, skip: int = 0) -> None:
        """The machine is gone, and the request was never sent."""
        self._events.append(_Event(verb, part, lambda request: self._die(), skip))

    def die_after(self, verb: str, part: str, *, skip: int = 0) -> None:
        """The machine is gone when the request has landed."""

        def act(request: Request) -> Any:
            request()
            self._die()

        self._events.append(_Event(verb, part, act, skip))

    def delay(self, verb: str, part: str, *, skip: int = 0) -> None:
        """The request gets no answer; it lands with `Laboratory.land`."""

        def act(request: Request) -> Any:
            self._laboratory.under_way.append(request)
            raise OutcomeUnknown(part)

        self._events.append(_Event(verb, part, act, skip))

    def repeat(self, verb: str, part: str, *, skip: int = 0) -> None:
        """The request is answered, and lands once more with `Laboratory.land`."""

        def act(request: Request) -> Any:
            self._laboratory.under_way.append(request)
            return request()

        self._events.append(_Event(verb, part, act, skip))

    def check_events(self) -> None:
        """Fail, as no assertion does, if something that was to happen has not."""
        for event in self._events:
            raise NeverHappened(f"{event.verb} {event.part}")

    def die_over(self, work: Callable[[], object]) -> None:
        """Do something that this machine does not survive."""
        with suppress(PowerCut):
            work()
        if not self._is_dead:
            raise NeverHappened("it was to die")

    def _die(self) -> None:
        self._is_dead = self.clock.is_stopped = True
        raise PowerCut

    def _send(self, verb: str, path: str, request: Request) -> Any:
        if self._is_dead:
            raise PowerCut
        self._laboratory.world.seconds += _LATENCY_S
        event = next((event for event in self._events if event.hits(verb, path)), None)
        if event is None:
            return request()
        self._events.remove(event)
        return event.act(request)


class Laboratory:
    """A table, its store, and the true time."""

    def __init__(
        self,
        table_type: str = "cow",
        *,
        has_metadata: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        own = {"hoodie.metadata.enable": has_metadata, **(options or {})}
        self.options: dict[str, object] = {**NO_SERVICES, **own}
        self.world = World()
        true_time = self.world.machine()
        name = f"laboratory-{next(_names)}"
        self.store = MemoryStorage(name, now_ms=true_time.now_ms)
        MemoryStorage.forget(name)  # whoever has it open keeps it
        self.under_way: list[Request] = []
        ref = create_table(
            self.store.uri,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            table_type=table_type,
            options=self.options,
            env=Env(self.store, true_time, HandIds("founder")),
        )
        if has_metadata:
            add_metadata_partitions(ref, LocalEngine(threads=1), *default_metadata_partitions(ref))

    def machine(self, host: str, *, wall_ms: int = 0, **options: object) -> Machine:
        """A new machine, whose wall clock is so far off, with settings of its own."""
        return Machine(self, host, wall_ms, {**self.options, **options})

    def open(self) -> Table:
        """The table as somebody sees it to whom nothing happens."""
        return self.machine(f"bystander {next(_names)}").table

    def land(self) -> None:
        """Let the requests land that are under way; nobody hears what they are answered."""
        while self.under_way:
            with suppress(StorageError):
                self.under_way.pop(0)()

    def settle(self) -> None:
        """Let the time pass after which all who are silent count as dead, and clear up."""
        for _ in range(3):
            self.world.pass_time(31 * MINUTE_S)
            self.open().recover()


def rows(*values: Row) -> pa.Table:
    """Rows of key, partition and value."""
    return pa.table([list(column) for column in zip(*values, strict=True)], schema=SCHEMA)


def read_rows(table: Table, *, as_of: str | None = None) -> list[Row]:
    """All rows, in order."""
    read = table.to_arrow(columns=["id", "part", "v"], as_of=as_of)
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True))


def find_repeated_keys(table: Table) -> list[str]:
    """Keys of more than one row."""
    counts = Counter(key for key, _, _ in read_rows(table))
    return [key for key, count in counts.items() if count > 1]


def find_pending(table: Table) -> list[str]:
    """What is on the timeline and not completed."""
    return [f"{i.action} {i.requested_time}" for i in table.timeline() if i.state != "completed"]


def try_to(work: Callable[[], object]) -> HoodooError | None:
    """The error by which something is refused; None if it was done."""
    try:
        work()
    except HoodooError as error:
        return error
    return None
