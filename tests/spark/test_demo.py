"""`hoodoo demo`: every step of the tour shows what it says; a step that does not fails it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hoodoo.cli.demo.steps import STEPS

pytestmark = pytest.mark.spark


def run_demo(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from hoodoo.cli.main import run; run()", "demo", str(place)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_tour_takes_every_step(tmp_path: Path) -> None:
    done = run_demo(tmp_path / "table")
    assert done.returncode == 0, done.stdout + done.stderr
    titles = re.findall(r"^\d+\. (.*)$", done.stdout, re.MULTILINE)
    assert titles == [step.title for step in STEPS]
    assert done.stdout.count("is stopped: EarlyConflict:") == 2
    assert re.search(r"\d{17} will lose to \d{17}: it writes to\n +city=pune/", done.stdout)
    assert "A goes on, and commits: " in done.stdout
    assert "WriteConflict" in done.stdout
    assert re.search(r"rolled back \d{17}: 1 data file", done.stdout)
    assert "20,002 rows by hudi-rs, 20,002 by hoodoo" in done.stdout
    assert re.search(r"committed \d{17}: 1 updated, 0 inserted", done.stdout)
    assert not done.stderr.strip()


def test_directory_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    done = run_demo(tmp_path)
    assert done.returncode == 1
    assert "is not a table of this demo" in done.stderr
    assert kept.read_text() == "mine"
