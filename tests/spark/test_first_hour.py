"""A user's first hour, played by a wheel of this clone in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "first_hour.py"
SCENES = ROOT / "examples" / "first_hour"


def play(*scenes: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *scenes], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.count("all is as it should be") >= 1


def test_first_minutes_of_a_user() -> None:
    """A wheel, its packages, rows in and out, the command line, and what the pages show."""
    play("frames", "commands", "blocks")


# CI: test_first_minutes_of_a_user; for what is left to nights, test_every_operation,
# test_each_batch_is_there_once_after_kills_between_commit_and_checkpoint,
# test_two_changes_of_the_same_rows_at_once_conflict
@pytest.mark.nightly
def test_first_hour_of_a_user() -> None:
    play()


def test_a_page_whose_block_fails_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nvalue = 1\n```\n\n```python\nassert value == 2\n```\n")
    words = [sys.executable, str(SCENES), "blocks", "--pages", str(page)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "WRONG: blocks: block 2 of page.md fails:" in done.stderr
    assert "Traceback" not in done.stdout


def test_pages_without_a_mark_must_not_need_spark(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nimport pyspark\n```\n")
    words = [sys.executable, str(SCENES), "blocks", "--pages", str(page)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "page.md imports pyspark" in done.stderr
