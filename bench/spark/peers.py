"""Runners in processes of their own, with the jars and the Spark that a peer needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from bench.spark.runner import Answer, Request

REPOSITORY = Path(__file__).parents[2]
SCRIPT = REPOSITORY / "scripts" / "peers.py"


class SideFailed(Exception):
    """A side cannot be had here, or could not do what it was asked to."""


class Peer:
    """A runner behind a pipe; without a name, one of our own Python."""

    def __init__(
        self, name: str, sides: Sequence[str], scratch: Path, *, partitioned: bool
    ) -> None:
        found = _fetch(name) if name else {"python": sys.executable}
        self.told = f"{name} {found[name]} on Spark {found['spark']}" if name else "own Spark"
        config = {
            "scratch": str(scratch),
            "sides": sides,
            "jars": found.get("bundle") or ",".join(found.get("jars", ())),
            "partitioned": partitioned,
        }
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        # A Spark that is installed elsewhere would be taken instead of the interpreter's own.
        env.pop("SPARK_HOME", None)
        if "java_home" in found:
            env["JAVA_HOME"] = found["java_home"]
        scratch.mkdir(parents=True)
        self._log = scratch / "log"
        with open(self._log, "w") as log:
            self._process = subprocess.Popen(
                [found["python"], "-m", "bench.spark.runner", json.dumps(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=env,
            )
        self.version = str(self._answer()["version"])

    def do(self, request: Request) -> Answer:
        """Ask the process, and wait for its answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(vars(request)) + "\n")
        self._process.stdin.flush()
        return Answer(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SideFailed(f"its process ended: {self._log.read_text()[-500:]}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise SideFailed(told["error"])
        return told

    def close(self) -> None:
        """End the process by ending its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)


class Cold:
    """Carries each request out as the first of a session, in a process that is ended after it."""

    def __init__(self, scratch: Path, *, partitioned: bool, name: str = "") -> None:
        self._name = name
        self._scratch = scratch
        self._partitioned = partitioned
        self._numbers = count()

    def do(self, request: Request) -> Answer:
        """Start a process for it."""
        scratch = self._scratch / str(next(self._numbers))
        peer = Peer(self._name, [request.side], scratch, partitioned=self._partitioned)
        try:
            return peer.do(request)
        finally:
            peer.close()


def _fetch(name: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), name]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SideFailed(found.stderr.strip().splitlines()[-1])
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer
