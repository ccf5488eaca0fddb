"""The near end of `hudi_process.py`: asks Apache Hudi to read, write, run SQL; waits are short."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = Path(__file__).with_name("hudi_process.py")
START_SECONDS = 120
ANSWER_SECONDS = 120

AT = ("at ", "... ")
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}


class PeerError(Exception):
    """Apache Hudi refused or failed; the text is its own."""


class Peer:
    """One long-lived Apache Hudi on Spark, whose JVM is in a time zone."""

    def __init__(self, found: Mapping[str, str], scratch: Path, *, zone: str = "UTC") -> None:
        self.scratch = scratch
        self.log = scratch / "peer.log"
        settings = json.dumps({"bundle": found["bundle"], "scratch": str(scratch), "zone": zone})
        env = {**os.environ, "JAVA_HOME": found["java_home"], "SPARK_LOCAL_IP": "127.0.0.1"}
        env.pop("SPARK_HOME", None)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [found["python"], str(PROGRAM), settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=env,
                cwd=scratch,
                start_new_session=True,
            )
        self.received = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.about = self._answer(START_SECONDS)

    def read(self, path: object, options: Mapping[str, str] | None = None) -> pa.Table:
        """The rows of a Hudi query on the table at `path`; a snapshot query unless told."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as out:
            self._ask(command="read", path=str(path), options=dict(options or {}), out=out)
            return pq.read_table(out)

    def as_of(self, path: object, instant: str) -> pa.Table:
        """The snapshot as it was at an instant."""
        return self.read(path, {"as.of.instant": instant})

    def changes(self, path: object, since: str, until: str | None = None) -> pa.Table:
        """Rows of commits completed after `since`, up to `until`."""
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": since,
        }
        if until:
            options["hoodie.datasource.read.end.instanttime"] = until
        return self.read(path, options)

    def write(
        self, path: object, rows: pa.Table, options: Mapping[str, str], mode: str = "append"
    ) -> None:
        """Writes rows by Hudi's DataFrame writer."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            file = f"{folder}/rows.parquet"
            pq.write_table(rows, file)
            self._ask(command="write", path=str(path), rows=file, options=dict(options), mode=mode)

    def sql(self, *statements: str, rows: bool = False) -> pa.Table | None:
        """Runs statements in order; gives the rows of the last one if asked."""
        if not rows:
            self._ask(command="sql", statements=statements, out=None)
            return None
        with tempfile.TemporaryDirectory(dir=self.scratch) as out:
            self._ask(command="sql", statements=statements, out=out)
            return pq.read_table(out)

    def close(self) -> None:
        """Ends the process and its JVM."""
        self.selector.close()
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # a group of its own, the JVM included
            self.process.wait(30)
        self.process.stdout.close()

    def _ask(self, **request: Any) -> Any:
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer(ANSWER_SECONDS)

    def _answer(self, seconds: float) -> Any:
        while b"\n" not in self.received:
            if not self.selector.select(seconds):
                raise TimeoutError(f"Apache Hudi gave no answer in {seconds} s; see {self.log}")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise PeerError(f"Apache Hudi ended: {self.log.read_text()[-2000:]}")
            self.received += piece
        line, _, self.received = self.received.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(digest(answer["error"]))
        return answer["ok"]


def digest(error: str) -> str:
    """A Java error without the lines that say where."""
    return "\n".join(line for line in error.splitlines() if not line.lstrip().startswith(AT))[:2000]
