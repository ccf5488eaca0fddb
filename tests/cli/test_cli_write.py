"""`hoodoo write`: files become rows, here or by Spark, and whatever goes wrong is one line."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.sessions import local_session

import hoodoo

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("fare", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("deep", pa.struct([("x", pa.int32())])),
    ]
)
FLAT = SCHEMA.names[:4]
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
PROGRAM = "from hoodoo.cli.main import run; run()"
SMALL = ("--master", "local[2]", "-o", "spark.driver.memory=1g", "-o", "spark.ui.port=0")
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Rows = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that commands of this process find running."""
    running = SparkSession.getActiveSession()
    session = running or local_session(tmp_path_factory.mktemp("spark"))
    yield session
    if running is None:
        session.stop()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hoodoo.create_table(
        str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city", ordering="at"
    )
    return tmp_path / "t"


def row(number: int, city: str = "sf", fare: str = "1.50") -> dict[str, Any]:
    values = (number, city, Decimal(fare), NOON, None)
    return dict(zip(SCHEMA.names, values, strict=True))


def rows(*given: dict[str, Any]) -> Rows:
    return {each["id"]: each for each in given}


def read_rows(place: Path) -> Rows:
    found = hoodoo.open_table(str(place)).to_arrow(columns=SCHEMA.names).to_pylist()
    assert len(rows(*found)) == len(found)
    return rows(*found)


def write_csv(path: Path, given: Rows, names: list[str] = FLAT) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(names)
        lines.writerows([each[name] for name in names] for each in given.values())
    return path


def write_json(path: Path, *given: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each, default=str) + "\n" for each in given))
    return path


def write_parquet(path: Path, given: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(list(given.values()), SCHEMA), path)
    return path


ENGINES = pytest.mark.parametrize("engine", ["local", "spark"])


@ENGINES
def test_every_operation_and_format(
    spark: SparkSession, place: Path, tmp_path: Path, hoodoo_cli, engine: str
) -> None:
    def load(op: str, source: Path, *words: str) -> dict[str, Any]:
        command = ("write", place, "--op", op, "--from", source, "--json", "--engine", engine)
        found = hoodoo_cli(*command, *words).json
        assert isinstance(found, dict)
        return found

    model = rows(*(row(n, city) for n, city in enumerate(["sf", "sf", "la", "la", "ny"])))
    (tmp_path / "many").mkdir()
    write_parquet(tmp_path / "many" / "1.parquet", {n: model[n] for n in (0, 1, 2)})
    write_parquet(tmp_path / "many" / "2.parquet", {n: model[n] for n in (3, 4)})
    done = load("bulk-insert", tmp_path / "many")
    assert done["stats"]["inserted"] == 5
    assert read_rows(place) == model

    new = rows(row(1, "sf", "2.25"), row(7, "sf", "3.00"))
    done = load("upsert", write_csv(tmp_path / "x.csv", new, ["fare", "at", "city", "id"]))
    assert (done["stats"]["inserted"], done["stats"]["updated"]) == (1, 1)
    assert {"prepare", "locate", "write", "commit"} <= done["timings"].keys()
    assert {type(took) for took in done["timings"].values()} == {float}
    assert done["instant"] < done["completion_time"]
    model |= new
    assert read_rows(place) == model

    deep = {**row(8, "la"), "deep": {"x": 5}}
    load("insert", write_json(tmp_path / "x.jsonl", deep))
    model[8] = deep
    assert read_rows(place) == model

    done = load("delete", write_json(tmp_path / "gone", {"id": 0}, {"id": 99}), "--format", "json")
    assert done["stats"]["deleted"] == 1
    del model[0]
    assert read_rows(place) == model

    load("insert-overwrite", write_csv(tmp_path / "y.csv", rows(row(20, "la"))))
    model = {n: each for n, each in model.items() if each["city"] != "la"} | rows(row(20, "la"))
    assert read_rows(place) == model

    load("insert-overwrite-table", write_parquet(tmp_path / "z.parquet", rows(row(1, "ny"))))
    assert read_rows(place) == rows(row(1, "ny"))


@pytest.mark.parametrize(
    ("name", "text", "reasons"),
    [
        ("x.csv", "id,city,tip\n1,sf,2\n", ["columns that the table lacks: tip"]),
        ("x.json", '{"id": 1, "deep": {"x": 1, "y": 2}}', ["the table lacks: deep.y"]),
        ("x.csv", "id,city,at\nmany,sf,2026-01-01\n", ["many"]),
        ("x.json", '{"id": 1, "city": "sf", ', ["x.json cannot be read as json", "JsonParse|JSON"]),
        ("x.csv", "id,city,at\n,sf,2026-01-01\n", ["record key id is null or empty"]),
        ("x.csv", "id,city\n1,sf\n", ["no column 'at' in the rows"]),
        ("x.parquet", "no Parquet", ["x.parquet"]),
        (None, "", ["does not exist", "nowhere.csv"]),
    ],
)
@ENGINES
def test_bad_files_are_one_line_and_no_row(
    spark: SparkSession,
    place: Path,
    tmp_path: Path,
    hoodoo_cli,
    engine: str,
    name: str | None,
    text: str,
    reasons: list[str],
) -> None:
    source = tmp_path / (name or "nowhere.csv")
    if name is not None:
        source.write_text(text)
    ran = hoodoo_cli("write", place, "--op", "upsert", "--from", source, "--engine", engine)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("hoodoo: ")
    assert len(ran.err.splitlines()) == 1
    for reason in reasons:
        assert re.search(reason, ran.err), ran.err
    assert hoodoo.open_table(str(place)).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("hoodie.metadata.index.expression.enable=true", "hoodoo has no index of that kind yet"),
        ("hoodie.datasource.write.operation=insert", "use table.insert(rows)"),
        ("hoodie.datasource.write.precombine.field=fare", "the table has 'at' there"),
    ],
)
def test_options_that_ask_for_another_write_are_one_line_and_no_row(
    spark: SparkSession, place: Path, tmp_path: Path, hoodoo_cli, option: str, reason: str
) -> None:
    source = write_parquet(tmp_path / "x.parquet", rows(row(1)))
    ran = hoodoo_cli("write", place, "--op", "upsert", "--from", source, "-o", option)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"hoodoo: {option.partition('=')[0]}=")
    assert len(ran.err.splitlines()) == 1
    assert reason in ran.err
    assert hoodoo.open_table(place).timeline() == []
    assert hoodoo_cli("scan", place, "-o", option).code == 0


def test_the_example_of_the_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hoodoo_cli
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(csv|console|python)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    [given] = [block for kind, block in blocks if kind == "csv"]
    commands = [block.partition("\n") for kind, block in blocks if kind == "console"]
    [(line, _, expected)] = [block for block in commands if block[0].startswith("$ hoodoo write")]
    create = next(block[0] for block in commands if block[0].startswith("$ hoodoo create"))
    assert hoodoo_cli(*shlex.split(create)[2:]).code == 0
    [before] = [block for kind, block in blocks if kind == "python"]
    exec(compile(before, "docs/cli.md", "exec"), {})
    words = shlex.split(line)[2:]
    (tmp_path / words[-1]).write_text(given)
    ran = hoodoo_cli(*words)
    assert ran.code == 0, ran.err

    def alike(text: str) -> str:
        return re.sub(r"\d+(\.\d+)? (KiB|s)\b|\d{17}|\d+\.\d", "N", text)

    assert alike(ran.out) == alike(expected)


def test_usage(place: Path, tmp_path: Path, hoodoo_cli) -> None:
    (tmp_path / "x.txt").write_text("")
    source = ("--from", tmp_path / "x.txt")
    assert hoodoo_cli("write", place, "--op", "upsert", *source).code == 2
    assert hoodoo_cli("write", place, "--op", "merge", *source, "--format", "csv").code == 2
    assert hoodoo_cli("write", place, "--op", "upsert", *source, "--format", "orc").code == 2
    assert hoodoo_cli("write", place, "--op", "upsert", *source, "--engine", "x").code == 2
    assert hoodoo_cli("write", place, "--op", "upsert").code == 2
    ran = hoodoo_cli("write", tmp_path, "--op", "upsert", *source, "--format", "csv")
    assert (ran.code, ran.err[:16]) == (1, "hoodoo: no table")


# -- as a process of its own ------------------------------------------------------------------


def program(*words: str | Path, code: str = PROGRAM, **streams: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE, **streams})


def test_it_starts_a_spark_and_shows_a_bar_on_a_terminal(place: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "x.csv", rows(row(1), row(2, "la")))
    terminal, inside = pty.openpty()
    words = ["write", place, "--op", "insert", "--from", source, "--json", *SMALL, "-o", QUICK]
    ran = program(
        *words,
        stderr=inside,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "TMPDIR": str(tmp_path)},
    )
    os.close(inside)
    shown = b"".join(iter(lambda: _some(terminal), b"")).decode()
    out, _ = ran.communicate(timeout=300)
    assert ran.returncode == 0, shown
    assert json.loads(out)["stats"]["inserted"] == 2
    assert read_rows(place) == rows(row(1), row(2, "la"))
    assert "insert t" in shown
    assert re.search(r"\d/\d", shown)
    assert "WARN" not in shown
    assert {path.name for path in tmp_path.iterdir()} == {"t", "x.csv"}


def _some(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""


def test_a_spark_that_fails_is_one_line_and_a_log(place: Path, tmp_path: Path) -> None:
    source = write_csv(tmp_path / "x.csv", rows(row(1)))
    words = [
        "write",
        place,
        "--op",
        "insert",
        "--from",
        source,
        "--master",
        "nonsense",
        "-o",
        QUICK,
    ]
    ran = program(
        *words,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    out, err = ran.communicate(timeout=300)
    assert (ran.returncode, out) == (1, b"")
    [line] = err.decode().splitlines()
    assert line.startswith("hoodoo: Spark did not start: ")
    assert "Master" in line
    [log] = re.findall(r"Spark's log: (.*\.log)\)", line)
    assert Path(log).read_text()


WITHOUT = "import sys; sys.modules[{!r}] = None; " + PROGRAM


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_without_spark_it_says_what_to_install(tmp_path: Path, package: str) -> None:
    place, source = tmp_path / "bare", write_csv(tmp_path / "x.csv", rows(row(1)))
    # Arrow, which reads a metadata table, stumbles over a pandas that is hidden like this.
    bare = {"hoodie.metadata.enable": False}
    hoodoo.create_table(str(place), schema=SCHEMA, record_key="id", options=bare)
    words = ["write", place, "--op", "insert", "--from", source, "--engine", "spark"]
    ran = program(
        *words,
        code=WITHOUT.format(package),
        stderr=subprocess.PIPE,
    )
    out, err = ran.communicate(timeout=60)
    assert (ran.returncode, out) == (1, b"")
    assert err.decode() == f"hoodoo: this needs {package}: pip install 'hoodoo[spark]'\n"
