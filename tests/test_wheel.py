"""What a wheel of hoodoo holds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_holds_every_package_but_testing() -> None:
    setuptools = pytest.importorskip("setuptools")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    chosen = settings["packages"]["find"]
    found = setuptools.find_namespace_packages(
        str(ROOT / chosen["where"][0]), chosen.get("exclude", ()), chosen.get("include", ("*",))
    )
    folders = {path.parent for path in (ROOT / "src").rglob("*.py")}
    every = {".".join(folder.relative_to(ROOT / "src").parts) for folder in folders}
    testing = {name for name in every if name.split(".")[0] == "hoodoo_testing"}
    assert {"hoodoo_testing", "hoodoo_testing.simulator.scenarios"} <= testing
    assert {name for name in found if "__pycache__" not in name} == every - testing
