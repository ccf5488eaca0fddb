"""The program as a process of its own: exit codes, streams, and what it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

pytestmark = pytest.mark.slow

PROGRAM = "from hoodoo.cli.main import run; run()"
IMPORTS = """
import sys
from hoodoo.cli.main import run
try:
    run()
finally:
    heavy = {"pyarrow", "numpy", "obstore", "rich", "pyspark", "pydantic"} & set(sys.modules)
    print(sorted(heavy), file=sys.stderr)
"""


def program(
    *words: str | Path, code: str = PROGRAM, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, timeout=120, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    path = tmp_path_factory.mktemp("program") / "t"
    options = {"hoodie.metadata.enable": False}  # to read a metadata table takes Arrow
    table = hoodoo.create_table(str(path), schema=schema, record_key="id", options=options)
    ids = list(range(20_000))
    table.insert(pa.table({"id": ids, "note": ["日本"] * len(ids)}, schema))
    table.insert_overwrite_table(pa.table({"id": ids, "note": ["日本"] * len(ids)}, schema))
    return path


def test_program_answers_and_exits_with_0(place: Path) -> None:
    ran = program("timeline", place, "--json")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert [one["operation"] for one in json.loads(ran.stdout)] == [
        "INSERT",
        "INSERT_OVERWRITE_TABLE",
    ]


def test_an_error_is_one_line_without_traceback(tmp_path: Path) -> None:
    ran = program("timeline", tmp_path)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.decode() == (
        f"hoodoo: no table at file://{tmp_path}: no .hoodie/hoodie.properties there\n"
    )


def test_usage_is_2() -> None:
    assert program("timeline").returncode == 2
    assert program("timeline", "t", "--nonsense").returncode == 2


@pytest.mark.parametrize("command", ["timeline", "show", "files"])
def test_commands_about_metadata_import_nothing_heavy(command: str, place: Path) -> None:
    ran = program(command, place, code=IMPORTS)
    assert ran.returncode == 0
    assert ran.stderr.decode().strip() == "[]"


def test_output_is_utf8_in_any_locale(place: Path) -> None:
    ran = program("scan", place, "--json", "--limit", "1", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0, ran.stderr
    assert "日本".encode() in ran.stdout


def test_closed_output_pipe_is_no_error(place: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "scan", str(place), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["note"] == "日本"
    process.stdout.close()
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1


def test_a_name_that_is_not_text_is_an_error_like_others(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "show", bytes(tmp_path) + b"/\xff"],
        capture_output=True,
        timeout=120,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"hoodoo: ")
    assert ran.stderr.count(b"\n") == 1
