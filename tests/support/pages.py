"""Runs the examples of a page: its blocks, in order, in one folder and with one set of names.

| block | |
|---|---|
| `python` | is run |
| `python spark` | is run too; the page needs the Spark session of the suite |
| `sh` | its lines that begin with `hoodoo ` are run, and must end well |
| any language, with `example` behind it | is only shown |

`/data/` of an example is the folder.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from hoodoo.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)(?: ([\w -]+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    note: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are more than shown, in order."""
    text = page.read_text()
    found = (
        Block(match[1], match[2] or "", match[3], text.count("\n", 0, match.start(3)))
        for match in BLOCK.finditer(text)
    )
    return [
        block for block in found if block.language in ("python", "sh") if block.note != "example"
    ]


def needs_spark(page: Path) -> bool:
    """Whether a page has examples for Spark."""
    return any(block.note == "spark" for block in blocks(page))


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run the examples of a page; the names that they leave behind."""
    names: dict[str, Any] = {}
    for block in blocks(page):
        text = block.text.replace("/data/", f"{folder}/")
        if block.language == "python":
            padded = "\n" * block.line + text  # so that a traceback names the line of the page
            exec(compile(padded, str(page), "exec"), names)
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("hoodoo "):
                ran = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
                if ran.exception is not None and not isinstance(ran.exception, SystemExit):
                    raise ran.exception
                assert ran.exit_code == 0, f"{page.name}: {line}\n{ran.stderr}"
                assert ran.stdout.strip(), f"{page.name}: {line} prints nothing"
    return names
