"""`hoodoo write` without Spark: small files are read and written by the program itself."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from hoodoo.cli.commands import write as command

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("fare", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("bytes", pa.binary()),
        ("yes", pa.bool_()),
        ("ratio", pa.float64()),
        ("deep", pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])),
    ]
)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ROW = {
    "id": 1,
    "city": "sf",
    "fare": Decimal("19.10"),
    "at": NOON,
    "local": datetime(2026, 1, 5, 12, 0, 0, 5),
    "day": date(2026, 1, 5),
    "clock": time(8, 30),
    "bytes": b"\x00\xff",
    "yes": True,
    "ratio": 0.5,
    "deep": {"x": 1, "tags": ["a", "b"]},
}
NULLS: dict[str, Any] = dict.fromkeys(SCHEMA.names)
PROGRAM = "import sys; sys.modules['pyspark'] = None; from hoodoo.cli.main import run; run()"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hoodoo.create_table(tmp_path / "t", schema=SCHEMA, record_key="id")
    return tmp_path / "t"


def read(place: Path) -> list[dict[str, Any]]:
    return hoodoo.open_table(place).to_arrow(columns=SCHEMA.names).sort_by("id").to_pylist()


def test_what_scan_prints_is_loaded_again(place: Path, tmp_path: Path, hoodoo_cli) -> None:
    rows = [ROW, {**NULLS, "id": 2}]
    hoodoo.open_table(place).insert(rows)
    (tmp_path / "x.json").write_text(hoodoo_cli("scan", place, "--json", "--meta").out)
    hoodoo.create_table(tmp_path / "u", schema=SCHEMA, record_key="id")
    done = hoodoo_cli(
        "write", tmp_path / "u", "--op", "insert", "--from", tmp_path / "x.json", "--json"
    )
    assert done.json["stats"]["inserted"] == 2
    assert read(tmp_path / "u") == rows


CSV = """\
city,id,fare,at,local,day,clock,bytes,yes,ratio
sf,1,19.1,2026-01-05T12:00:00Z,2026-01-05 12:00:00.000005,2026-01-05,08:30:00,ab,true,0.5
"",2,,2026-01-05,,,,,,
,3,,2026-01-05 14:00:00+02:00,,,,,,
"a ""b""
c",4,,2026-01-05T12:00,,,,,FALSE,NaN
"""


def test_csv_is_read_in_the_types_of_the_table(place: Path, tmp_path: Path, hoodoo_cli) -> None:
    (tmp_path / "x.csv").write_text(CSV)
    assert hoodoo_cli("write", place, "--op", "upsert", "--from", tmp_path / "x.csv").code == 0
    first, second, third, fourth = read(place)
    assert first == {**ROW, "bytes": b"ab", "deep": None}
    midnight = datetime(2026, 1, 5, tzinfo=UTC)
    assert second == {**NULLS, "id": 2, "city": "", "at": midnight}
    assert third == {**NULLS, "id": 3, "at": NOON}
    assert (fourth["city"], fourth["at"], fourth["yes"]) == ('a "b"\nc', NOON, False)


def test_packed_files_patterns_and_directories(place: Path, tmp_path: Path, hoodoo_cli) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "_SUCCESS").write_text("")
    (folder / "1.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    (folder / "2.csv").write_bytes(b"id,city\n2,sf\n")
    for source in (folder, f"{folder}/*.csv*", f"file://{folder}"):
        done = hoodoo_cli("write", place, "--op", "upsert", "--from", source, "--json").json
        assert done["stats"]["inserted"] + done["stats"]["updated"] == 2
    assert [(row["id"], row["city"]) for row in read(place)] == [(1, None), (2, "sf")]


def test_parquet_may_bring_columns_and_types_of_its_own(
    place: Path, tmp_path: Path, hoodoo_cli
) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int8()), "tip": [2.5]}), tmp_path / "x.parquet")
    stamp = pa.array([NOON], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"id": [2], "at": stamp}), tmp_path / "y.parquet")
    source = f"{tmp_path}/*.parquet"
    assert hoodoo_cli("write", place, "--op", "insert", "--from", source).code == 0
    found = hoodoo.open_table(place).to_arrow(columns=["id", "tip", "at"]).sort_by("id")
    assert found.to_pylist() == [
        {"id": 1, "tip": 2.5, "at": None},
        {"id": 2, "tip": None, "at": NOON},
    ]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("x.csv", "city\nsf\n", "x.csv: no column 'id' in the rows"),
        ("x.csv", "id,City\n1,sf\n", "x.csv: it has columns that the table lacks: City"),
        ("x.csv", "id,id\n1,2\n", "x.csv: duplicate column name"),
        ("x.csv", "id,fare\n1,1.234\n", "x.csv cannot be read as csv: column fare: "),
        ("x.csv", "id,at\n1,noon\n", "x.csv: column at: Failed to parse"),
        ("x.csv", "id,deep\n1,2\n", "x.csv: CSV has no values for nested columns: deep"),
        ("x.csv", "", "x.csv: no column 'id' in the rows"),
        ("x.csv", "id\n1\n2,3\n", "x.csv cannot be read as csv"),
        ("x.json", '{"id": "one"}', "x.json cannot be read as json: JSON parse error"),
        ("x.json", '{"id": 1, "bytes": "%"}', "x.json: column bytes: "),
        ("x.json", "", "x.json cannot be read as json: Empty JSON file"),
        ("x.parquet", "PAR1", "x.parquet: it cannot be read as parquet"),
    ],
)
def test_files_that_do_not_fit_are_one_line_and_no_instant(
    place: Path, tmp_path: Path, hoodoo_cli, name: str, text: str, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    ran = hoodoo_cli("write", place, "--op", "upsert", "--from", tmp_path / name)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert f"{tmp_path}/{reason}" in ran.err
    assert hoodoo.open_table(place).timeline() == []


def test_files_that_are_not_there_or_not_readable_are_found_first(
    place: Path, tmp_path: Path, hoodoo_cli
) -> None:
    def fails(source: Path, reason: str) -> None:
        ran = hoodoo_cli("write", place, "--op", "insert", "--from", source, "--format", "csv")
        assert (ran.code, ran.err) == (1, f"hoodoo: {reason}\n")

    fails(tmp_path / "none.csv", f"{tmp_path}/none.csv does not exist")
    (tmp_path / "empty").mkdir()
    fails(tmp_path / "empty", f"{tmp_path}/empty holds no files")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    fails(tmp_path / "loop.csv", f"{tmp_path}/loop.csv cannot be read: {os.strerror(errno.ELOOP)}")
    if os.geteuid():
        (tmp_path / "x.csv").write_text("id\n1\n")
        (tmp_path / "x.csv").chmod(0)
        fails(tmp_path / "x.csv", f"{tmp_path}/x.csv cannot be read: Permission denied")


def test_columns_are_checked_before_spark_starts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("city\nsf\n")
    command = ("write", place, "--op", "upsert", "--from", tmp_path / "x.csv", "--engine", "spark")
    ran = run_without_spark(*command)
    assert (ran.returncode, ran.stderr) == (
        1,
        f"hoodoo: {tmp_path}/x.csv: no column 'id' in the rows; there are ['city']\n",
    )


def run_without_spark(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_small_load_needs_no_spark(place: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id\n1\n")
    ran = run_without_spark("write", place, "--op", "upsert", "--from", tmp_path / "x.csv")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("upsert ")


def test_a_large_load_says_what_it_needs(
    place: Path, tmp_path: Path, hoodoo_cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LOCAL_BYTES", 3)
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    (tmp_path / "x.csv").write_text("id\n1\n")
    words = ("write", place, "--op", "upsert", "--from", tmp_path / "x.csv")
    ran = hoodoo_cli(*words)
    assert ran.code == 1
    assert "pip install 'hoodoo[spark]', or give --engine local" in ran.err
    assert hoodoo_cli(*words, "--engine", "local").code == 0


def test_what_only_spark_reads_is_not_read_here(tmp_path: Path, hoodoo_cli) -> None:
    schema = pa.schema([("id", pa.int64()), ("map", pa.map_(pa.string(), pa.int64()))])
    hoodoo.create_table(tmp_path / "t", schema=schema, record_key="id")
    (tmp_path / "x.json").write_text(json.dumps({"id": 1, "map": {"a": 1}}))
    words = ("write", tmp_path / "t", "--op", "insert", "--engine", "local", "--from")
    ran = hoodoo_cli(*words, tmp_path / "x.json")
    assert (ran.code, "can only be read by Spark" in ran.err) == (1, True)
    (tmp_path / "in/day=1").mkdir(parents=True)
    ran = hoodoo_cli(*words, tmp_path / "in", "--format", "csv")
    assert (ran.code, "can only be read by Spark" in ran.err) == (1, True)
