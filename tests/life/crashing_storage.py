"""A machine that may die at any operation on its storage, and leaves everything as it is then."""

from __future__ import annotations

from typing import Any

from support.hand_clock import HandIds
from support.writer_machines import Fleet, Machine, PowerCut

from hoodoo.runtime.env import Env
from hoodoo.storage.storage import Storage
from hoodoo.table.ref import open_ref

VERBS = frozenset(
    {
        *("list", "list_directories", "stat", "exists", "read", "read_version", "open_read"),
        *("create", "put", "replace", "delete", "open_write"),
    }
)


class MortalStorage:
    """Any storage; after so many operations the power is off, for good."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self._left: int | None = None
        self._lands = False

    def dies_after(self, operations: int, *, lands: bool) -> None:
        """Let the power be cut at an operation, before it or once it has landed."""
        self._left, self._lands = operations, lands

    def lives_on(self) -> None:
        """The machine got away, if it is still alive."""
        if self._left:
            self._left = None

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in VERBS:
            return verb

        def called(*args: Any, **kwargs: Any) -> Any:
            if self._left is None:
                return verb(*args, **kwargs)
            self._left = max(0, self._left - 1)
            if self._left:
                return verb(*args, **kwargs)
            if self._lands:
                self._lands = False
                verb(*args, **kwargs)
            raise PowerCut

        return called


class MortalFleet(Fleet):
    """A table on whose machines one cannot rely."""

    def machine(self, host: str, *, wall_ms: int = 0, **options: object) -> Machine:
        clock = self.world.machine(wall_ms)
        storage = MortalStorage(self.store)
        env = Env(storage, clock, HandIds(host))
        ref = open_ref(self.store.uri, {**self.options, **options}, env)
        return Machine(ref, clock, storage)

    def die(self, machine: Machine) -> None:
        super().die(machine)
        self.world.clocks.remove(machine.clock)
