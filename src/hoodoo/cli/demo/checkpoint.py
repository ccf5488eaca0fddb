"""A point in the computation of a DataFrame where its tasks report, and wait to be let on.

So the tour knows that a write is in the middle, without guessing how long something takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Client, Listener
from secrets import token_hex
from threading import Event, Thread
from typing import Any, Self

_LOOK_EVERY_S = 0.1


class Checkpoint:
    """Where tasks report; those that come once it is open need not wait."""

    def __init__(self) -> None:
        self._key = token_hex(16)
        self._listener = Listener(("127.0.0.1", 0), authkey=self._key.encode())
        self._arrived, self._opened = Event(), Event()
        Thread(target=self._serve, name="hoodoo checkpoint", daemon=True).start()

    @property
    def pass_(self) -> str:
        """What a task needs in order to report."""
        return f"{self._listener.address[1]}:{self._key}"

    def wait(self, is_over: Callable[[], bool]) -> bool:
        """Wait for a task to report; False if what it belongs to is over before that."""
        while not self._arrived.wait(_LOOK_EVERY_S):
            if is_over():
                return False
        return True

    def open(self) -> None:
        """Let all go on."""
        self._opened.set()

    def _serve(self) -> None:
        while True:
            try:
                with self._listener.accept() as task:
                    self._arrived.set()
                    self._opened.wait()
                    task.send(None)
            except OSError:
                return  # closed, or the task is gone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._listener.close()


def report_at(pass_: str, key: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For `mapInArrow`: the task with this value in the first column reports before it goes on."""

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if key in batch.column(0).to_pylist():
                report(pass_)
            yield batch

    return rows


def report(pass_: str) -> None:
    """Say that one is here, and wait to be let on."""
    port, secret = pass_.split(":")
    with Client(("127.0.0.1", int(port)), authkey=secret.encode()) as tour:
        tour.recv()
