"""docs/cli.md shows what the program prints."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import dead_upsert

import hoodoo
from hoodoo.cli.main import COMMANDS, GROUPS

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BY_SPARK = {"write", "demo"}  # `test_cli_write.py` and `test_demo.py` run them
VARYING = (
    (r"(?<!\d)\d{17}(?!\d)", "INSTANT"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?|\b\d\d:\d\d:\d\d\.\d{3}\b", "TIME"),
    (r"\b[0-9a-f]{8}\.\.-\d", "ID"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"\b\d+\.\d KiB|\b4 KiB", "SIZE"),  # depends on the Parquet writer
    (r"\S+ on \S+, process \d+", "PROCESS"),
    (r"\b\d+m \d+s\b|\b\d+ s ago|\b\d+s(?= )", "AGE"),
    (r"-{2,}|(?<= ) +", ""),  # and with it the width of columns
)


def alike(text: str) -> list[str]:
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.strip().splitlines()]


def kill_a_writer(place: Path) -> str:
    """An upsert whose writer has been dead for some time; its instant."""
    schema = hoodoo.open_table(str(place)).schema
    row = {"id": 1, "city": "sf", "fare": Decimal("30.00"), "ts": datetime(2026, 1, 7, tzinfo=UTC)}
    return dead_upsert(place, pa.Table.from_pylist([row], schema))


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hoodoo_cli) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(console|python)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert [kind for kind, _ in blocks].count("python") == 1
    commands = set()
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "docs/cli.md", "exec"), {})
            continue
        command, _, expected = block.partition("\n")
        program, *words = shlex.split(command.removeprefix("$ "))
        assert program == "hoodoo"
        commands.add(words[0])
        if words[0] in BY_SPARK:
            continue
        if expected.startswith("rolled back"):
            instant = kill_a_writer(tmp_path / "trips")
            words = [instant if word.isdigit() else word for word in words]
        if words[0] == "cancel":
            (plan,) = hoodoo.open_table("trips").plans()
            words = [plan.instant if word.isdigit() else word for word in words]
        ran = hoodoo_cli(*words)
        assert ran.code == 0, ran.err
        assert alike(ran.out.replace(str(tmp_path), "/data")) == alike(expected), command
    assert commands == {*GROUPS, *(command.__name__.replace("_", "-") for command in COMMANDS)}
