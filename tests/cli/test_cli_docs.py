"""docs/cli.md shows what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
VARYING = (
    (r"\b\d{17}\b", "INSTANT"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"\b\d+\.\d KiB|\b4 KiB", "SIZE"),  # depends on the Parquet writer
    (r"-{2,}|(?<= ) +", ""),  # and with it the width of columns
)


def alike(text: str) -> list[str]:
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.strip().splitlines()]


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
        ran = hoodoo_cli(*words)
        assert ran.code == 0, ran.err
        assert alike(ran.out.replace(str(tmp_path), "/data")) == alike(expected), command
        commands.add(words[0])
    assert commands == {"create", "show", "schema", "timeline", "files", "scan"}
