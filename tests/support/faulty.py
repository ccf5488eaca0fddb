"""A storage that loses the answers, or the requests, that a test names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hoodoo.errors import OutcomeUnknown
from hoodoo.storage.storage import Storage

VERBS = ("create", "put", "replace", "delete", "stat", "read", "read_version")


@dataclass
class Fault:
    """The next `times` operations of this verb whose path matches `part` get no answer."""

    verb: str
    part: str
    landed: bool
    times: int = 1

    def hits(self, verb: str, path: str) -> bool:
        return self.verb == verb and re.search(self.part, path) is not None


def _do_nothing(verb: str, path: str) -> None:
    """Let the operation go ahead."""


class FaultyStorage:
    """Any storage, with faults, and with what happens ahead of its operations."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self._before: Callable[[str, str], object] = _do_nothing
        self.faults: list[Fault] = []

    def before(self, act: Callable[[str, str], object]) -> None:
        """Have this done ahead of each operation on a path, with its verb; it may raise."""
        self._before = act

    def leave_alone(self) -> None:
        """Have nothing done any more; faults stay."""
        self._before = _do_nothing

    def lose(self, verb: str, part: str, *, landed: bool, times: int = 1) -> None:
        """Let operations get no answer, whether they landed or not."""
        self.faults.append(Fault(verb, part, landed, times))

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in VERBS:
            return verb

        named = "read" if name == "read_version" else name  # one request, whichever it is

        def called(path: str, *args: Any, **kwargs: Any) -> Any:
            self._before(named, path)
            fault = next((f for f in self.faults if f.hits(named, path)), None)
            if fault is None:
                return verb(path, *args, **kwargs)
            fault.times -= 1
            if not fault.times:
                self.faults.remove(fault)
            if fault.landed:
                verb(path, *args, **kwargs)
            raise OutcomeUnknown(path)

        return called
