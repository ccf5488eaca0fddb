"""A process that wants a table's lock, and does what it is told: `python lock_process.py URI JSON`.

Each line on its standard input is a word; it answers with one line. `count FILE N` takes the lock N
times and counts the number in FILE up each time, as if nobody else could.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hoodoo.concurrency.locks.table_lock import hold_lock, make_lock
from hoodoo.errors import HoodooError
from hoodoo.table.ref import TableRef, open_ref


class Contender:
    """The process as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def say(self, *words: object) -> None:
        """Tell it to do something, and do not wait."""
        self._pipe(self._process.stdin).write(" ".join(map(str, words)) + "\n")
        self._pipe(self._process.stdin).flush()

    def answer(self) -> str:
        """What it answers to the word that was said first."""
        return self._pipe(self._process.stdout).readline().strip()

    def ask(self, *words: object) -> str:
        """Tell it to do something, and wait for the answer."""
        self.say(*words)
        return self.answer()

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@contextmanager
def contender(uri: str, options: Mapping[str, object]) -> Iterator[Contender]:
    """A contender in a process of its own, killed at the end."""
    command = [sys.executable, __file__, uri, json.dumps(dict(options))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        try:
            yield Contender(process)
        finally:
            process.kill()


def _count(ref: TableRef, file: str, times: str) -> str:
    path, turns = Path(file), 0
    while turns < int(times):
        with hold_lock(ref, "count"):
            path.write_text(str(int(path.read_text()) + 1))
        turns += 1
    return f"counted {turns}"


def _count_until(ref: TableRef, file: str, stop: str) -> str:
    path, turns = Path(file), 0
    while not Path(stop).exists():
        with hold_lock(ref, "count"):
            path.write_text(str(int(path.read_text()) + 1))
        turns += 1
        time.sleep(0.002)  # whoever takes the lock again at once leaves no gap for others
    return f"counted {turns}"


def _append(ref: TableRef, file: str, word: str) -> str:
    with hold_lock(ref, "append"), Path(file).open("a") as log:
        log.write(f"{word}\n")
    return "appended"


def _serve(uri: str, options: str) -> None:
    ref = open_ref(uri, json.loads(options))
    lock = make_lock(ref, "test")
    verbs: dict[str, Callable[..., object]] = {
        "new": lambda: None,
        "try": lambda: lock.try_acquire(),
        "check": lambda: lock.check_last_confirmation(),
        "confirm": lambda: lock.confirm_with_lock(),
        "release": lambda: lock.release(),
        "count": lambda *words: _count(ref, *words),
        "count_until": lambda *words: _count_until(ref, *words),
        "append": lambda *words: _append(ref, *words),
    }
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "new":
            lock = make_lock(ref, "test")
        try:
            told = verbs[verb](*words)
        except HoodooError as error:
            told = f"{type(error).__name__}: {error}"
        print("ok" if told is None else told, flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
