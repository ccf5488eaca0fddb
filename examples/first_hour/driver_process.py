"""Spark drivers as processes of their own: started, told to go, listened to, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks import Wrong

HERE = Path(__file__).parent
LAST_LINES = 15


class Driver:
    """A script of this folder in a new process; it prints one JSON object a line."""

    def __init__(self, script: str, log: Path, *words: str) -> None:
        self.log = log
        self.script = script
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / script), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # so that its JVM dies with it
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def events(self) -> Iterator[dict[str, Any]]:
        """What it tells, to its end; fails if it failed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)
        if self.process.wait() != 0:
            told = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
            raise Wrong("\n".join([f"{self.script} failed:", *told]))

    def wait_for(self, event: str) -> dict[str, Any]:
        """What it tells with this event."""
        for told in self.events():
            if told["event"] == event:
                return told
        raise Wrong(f"{self.script} ended without {event!r}")

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL for it and its JVM, if they live."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def tell(event: str, **facts: Any) -> None:
    """One line for the process that started this one."""
    print(json.dumps({"event": event, **facts}), flush=True)


def wait_for_go() -> None:
    """Wait until the process that started this one says so."""
    sys.stdin.readline()
