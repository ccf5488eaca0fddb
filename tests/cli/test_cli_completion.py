"""Shells complete commands and options, and nothing heavy is imported for that."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.argv[0] = "hoodoo"
from hoodoo.cli.main import app
try:
    app(prog_name="hoodoo")
finally:
    heavy = {"pyarrow", "numpy", "obstore", "rich", "pyspark", "pandas"} & set(sys.modules)
    print("imported", sorted(heavy), file=sys.stderr)
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [("hoodoo ti", {"timeline"}), ("hoodoo savepoint ", {"create", "delete", "list"})],
)
def test_commands_are_completed_without_heavy_imports(line: str, found: set[str]) -> None:
    ran = run(
        _HOODOO_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(line.count(" ")),
    )
    assert set(ran.stdout.split()) == found
    assert ran.stderr.strip() == "imported []"


def test_options_are_completed() -> None:
    ran = run(_HOODOO_COMPLETE="complete_bash", COMP_WORDS="hoodoo write --en", COMP_CWORD="2")
    assert ran.stdout.split() == ["--engine"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(shell: str) -> None:
    ran = run("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert ran.returncode == 0, ran.stderr
    assert f"_HOODOO_COMPLETE=complete_{shell}" in ran.stdout
    assert ran.stderr.strip() == "imported []"


def test_the_help_explains_the_words_of_a_table() -> None:
    text = " ".join(run("--help").stdout.split())
    for word in ("An instant is", "A base file is", "a file slice is"):
        assert re.search(rf"\b{word} \w+", text)
    assert "--install-completion" in text
