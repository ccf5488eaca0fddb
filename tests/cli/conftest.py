"""Runs the program in this process: `hoodoo("timeline", place)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoodoo.cli.main import app


@dataclass(frozen=True)
class Ran:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        assert self.code == 0, self.err
        return [line.split() for line in self.out.splitlines()]

    @property
    def facts(self) -> dict[str, str]:
        """Lines of a name and a value, two blanks between them."""
        assert self.code == 0, self.err
        pairs = [line.partition("  ") for line in self.out.splitlines()]
        return {name: value.strip() for name, _, value in pairs if value.strip()}


Run = Callable[..., Ran]


@pytest.fixture
def hoodoo_cli() -> Run:
    def run(*words: str | Path) -> Ran:
        result = CliRunner().invoke(app, [str(word) for word in words])
        # Whatever is neither done nor a HoodooError must show: no exception is swallowed.
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run
