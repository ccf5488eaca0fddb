"""Processes for tests: each has a deadline, dies with its parent, and keeps a journal if asked.

A journal is a file of JSON lines, each on disk before the process goes on: what it says is true
however the process ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

_TESTS = Path(__file__).resolve().parents[1]
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def until(
    what: str, condition: Callable[[], object], *, within_s: float, every_s: float = 0.01
) -> None:
    """Look until something is so; fail, saying what it was, when that takes too long."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(every_s)


def be_mortal(deadline_s: int) -> None:
    """Let the kernel end this process at its deadline, and with the thread that started it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(deadline_s)


class Journal:
    """What a process did, as far as it got to tell."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, word: str, **facts: object) -> None:
        """Add a line; it is on disk when this returns."""
        line = json.dumps({"word": word, **facts}).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entries(self) -> list[dict[str, Any]]:
        """The lines that are complete."""
        try:
            whole = self.path.read_bytes().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in whole.splitlines()]

    def words(self) -> list[str]:
        return [entry["word"] for entry in self.entries()]


class Child:
    """A process as its parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, journal: Journal) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid
        self.journal = journal

    @property
    def code(self) -> int | None:
        """How it ended: minus the signal that killed it; None while it runs."""
        return self._process.poll()

    @property
    def is_stopped(self) -> bool:
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, options) is not None
        return False

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Let it stand still, as a long pause of its machine would."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after it was stopped."""
        self._process.send_signal(signal.SIGCONT)

    def wait_until_idle(self, *, within_s: float) -> bool:
        """Wait until it has stopped itself, or has ended; whether it has stopped."""

        def is_idle() -> bool:
            return self.is_stopped or self.code is not None

        until(f"process {self.pid} stops itself or ends", is_idle, within_s=within_s)
        return self.code is None

    def end(self, *, within_s: float) -> int:
        """Wait for its end, and tell how it was."""
        return self._process.wait(timeout=within_s)

    def told(self) -> str:
        """The end of what it printed, for people."""
        return f"code {self.code}: {self._log.read_text(errors='replace')[-4000:]}"


class Children:
    """The processes of one test; whatever still runs at the end of the block is killed."""

    def __init__(self, folder: Path) -> None:
        """Their logs and journals are in `folder`."""
        self._folder = folder
        self._running: list[Child] = []

    def start(self, script: Path, spec: Mapping[str, object], *, deadline_s: int) -> Child:
        """Run a script with the path of its journal and a spec as JSON; see `be_mortal`."""
        stem = self._folder / f"{script.stem}-{len(self._running)}"
        journal, log = Journal(stem.with_suffix(".journal")), stem.with_suffix(".log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(script), str(journal.path), json.dumps(dict(spec))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": _python_path()},
                preexec_fn=lambda: be_mortal(deadline_s),
            )
        child = Child(process, log, journal)
        self._running.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._running:
            child.kill()


def _python_path() -> str:
    """The tests, then what this process was given: a child runs the code that its parent runs."""
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(_TESTS), *([inherited] if inherited else [])])


def spec_of(arguments: list[str]) -> tuple[Journal, dict[str, Any]]:
    """What `Children.start` gave a script."""
    journal, spec = arguments
    return Journal(Path(journal)), json.loads(spec)


def wait_until_gone(pid: int, *, within_s: float = 120.0) -> None:
    """The worker of a killed task ends when it has nobody to tell its result."""

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    until(f"worker {pid} ends", is_gone, within_s=within_s)
