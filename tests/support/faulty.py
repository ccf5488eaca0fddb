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


class FaultyStorage:
    """Any storage, with faults; `before` is called ahead of each operation on a path."""

    def __init__(
        self, inner: Storage, before: Callable[[str, str], None] = lambda verb, path: None
    ) -> None:
        self._inner = inner
        self._before = before
        self.faults: list[Fault] = []

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
