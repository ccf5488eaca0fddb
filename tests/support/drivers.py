"""Spark drivers in processes of their own, as the test sees them: requests out, answers in."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, cast

from support.processes import Child, Children

READY_WITHIN_S = 120.0


class Failed(Exception):
    """What a request raised in the driver: the name of the error's class, and its text."""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(f"{error}: {reason}")
        self.error = error


class Driver:
    """A driver that does one thing at a time."""

    def __init__(self, child: Child, connection: Connection) -> None:
        self._connection = connection
        self._child = child
        self._asked = 0

    def begin(self, name: str, **arguments: object) -> None:
        """Ask, and do not wait for the answer."""
        self._asked += 1
        self._connection.send((self._asked, name, arguments))

    def answer(self, *, within_s: float) -> Any:
        """The answer to what was asked last. Raises `Failed`."""
        number = 0
        while number != self._asked:  # those before, a test did not wait for
            assert self._connection.poll(within_s), f"no answer: {self._child.told()}"
            number, word, result = self._connection.recv()
        if word != "done":
            raise Failed(word, result)
        return result


@contextmanager
def driver(
    children: Children, script: Path, settings: Mapping[str, str], *, deadline_s: int
) -> Iterator[Driver]:
    """A driver whose session is there; it is killed at the end of the block."""
    address = f"\0hoodoo-{secrets.token_hex(8)}"  # no file that would be left
    with Listener(address, "AF_UNIX") as listener:
        spec = {"address": address, "settings": dict(settings)}
        child = children.start(script, spec, deadline_s=deadline_s)
        cast(Any, listener)._listener._socket.settimeout(READY_WITHIN_S)
        try:
            connection = listener.accept()
        except TimeoutError:
            raise AssertionError(f"no session: {child.told()}") from None
    with connection:
        yield Driver(child, connection)
        child.kill()
