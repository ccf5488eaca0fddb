"""Ctrl-C ends a command in order: what was begun is undone, one line, and exit code 130."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes import until

import hoodoo
from hoodoo.model.progress import Progress

pytestmark = pytest.mark.slow

PROGRAM = "from hoodoo.cli.main import run; run()"
GROUPS = 400
SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    return hoodoo.create_table(tmp_path / "t", schema=SCHEMA, record_key="id", partition_by="place")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Rows of so many file groups that writing them takes a while."""
    ids = list(range(GROUPS))
    pq.write_table(pa.table({"id": ids, "place": ids}, SCHEMA), tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def start(table: hoodoo.Table, source: Path) -> subprocess.Popen[str]:
    place = table.uri.removeprefix("file://")
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "write", place, "--op", "insert", "--from", str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_in_the_write_phase_leaves_a_clean_table(
    table: hoodoo.Table, source: Path, tmp_path: Path
) -> None:
    running = start(table, source)

    def is_writing() -> bool:
        return any((tmp_path / "t").glob("place=*/*.parquet"))

    until("the first file is written", is_writing, within_s=60)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (130, "")
    assert err == ("hoodoo: interrupted: the write is undone, and none of its rows is visible\n")
    assert table.count() == 0
    assert {one.action for one in table.timeline()} == {"rollback"}
    assert not list((tmp_path / "t").glob("place=*/*.parquet"))
    assert not list((tmp_path / "t/.hoodie/.heartbeat").glob("*"))
    assert table.doctor() == []
    assert table.insert(pq.read_table(source)).stats.inserted == GROUPS


def test_ctrl_c_before_the_write_leaves_no_trace(table: hoodoo.Table, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.csv")  # whoever opens it waits for the other end
    running = start(table, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open("wb", buffering=0) as pipe:  # it is being read now
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
        pipe.close()
    assert running.returncode == 130
    assert err.count("\n") == 1
    assert err.startswith("hoodoo: interrupted")
    assert table.timeline() == []


def test_an_interrupted_callback_undoes_the_write(table: hoodoo.Table, source: Path) -> None:
    def press(step: Progress) -> None:
        if step.phase == "finalize":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.insert(pq.read_table(source).slice(0, 3), progress=press)
    assert table.count() == 0
    assert {one.action for one in table.timeline()} == {"rollback"}


def test_a_bar_shows_the_phases_on_a_terminal(
    table: hoodoo.Table, source: Path, tmp_path: Path
) -> None:
    terminal, inside = pty.openpty()
    place = str(tmp_path / "t")
    words = ["write", place, "--op", "insert", "--from", str(source), "--json"]
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(inside)
    shown = b"".join(iter(lambda: _some(terminal), b"")).decode()
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 0, shown
    assert json.loads(out)["stats"]["inserted"] == GROUPS
    assert "insert t write" in shown
    assert f"/{GROUPS}" in shown


def _some(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""
