"""A base file of the usual size is merged in a fraction of the memory that its rows would take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.large_file import AT_ONCE, ROWS

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[2]


def run(*words: str) -> str:
    """What a fresh process says."""
    command = [sys.executable, "-m", "support.large_file", *words]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_large_base_file_is_merged_in_little_memory(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    run("make", place)
    told = json.loads(run("merge", place))
    print(told)
    assert told["rows"] == ROWS
    assert told["updated"] == AT_ONCE
    assert told["file_mb"] >= 110
    assert told["peak_mb"] < 1000
