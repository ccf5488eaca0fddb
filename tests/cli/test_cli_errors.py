"""How the program ends: 0, 1 with one line, 2 for usage."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

pytestmark = pytest.mark.slow

COMMANDS = ("show", "schema", "timeline", "files", "scan")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    table.insert(pa.table({"id": [1], "city": ["sf"]}, schema))
    return tmp_path / "t"


def fails(ran, *reasons: str) -> None:
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("hoodoo: ")
    assert len(ran.err.splitlines()) == 1
    for reason in reasons:
        assert reason in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_table_there(command: str, tmp_path: Path, hoodoo_cli) -> None:
    fails(hoodoo_cli(command, tmp_path / "none"), f"no table at file://{tmp_path}/none")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff garbage",
        b"hoodie.table.name=t\nhoodie.table.version=99\n",
        b"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.checksum=1\n",
    ],
)
def test_damaged_properties(command: str, content: bytes, place: Path, hoodoo_cli) -> None:
    (place / ".hoodie/hoodie.properties").write_bytes(content)
    fails(hoodoo_cli(command, place), ".hoodie/hoodie.properties")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--filter", "city ="), "expected a value at the end"),
        (("--filter", "nothing = 1"), "nothing"),
        (("--filter", "id = 'x'"), "id"),
        (("--columns", "id,nothing"), "unknown column 'nothing'"),
        (("--as-of", "yesterday"), "neither an instant time"),
        (("--as-of", "2024-13-01"), "neither an instant time"),
    ],
)
def test_invalid_arguments_are_one_line_errors(
    words: tuple[str, ...], reason: str, place: Path, hoodoo_cli
) -> None:
    fails(hoodoo_cli("scan", place, *words), reason)


def test_invalid_options_are_one_line_errors(place: Path, hoodoo_cli) -> None:
    key = "hoodie.parquet.small.file.limit"
    fails(hoodoo_cli("files", place, "--option", f"{key}=many"), key, "many")
    fails(hoodoo_cli("files", place, "--option", "aws_region=x"), "aws_region")
    fails(hoodoo_cli("show", "ftp://host/t"), "unknown scheme")


def test_a_damaged_data_file_is_named(place: Path, hoodoo_cli) -> None:
    (base,) = place.glob("*.parquet")
    base.write_bytes(base.read_bytes()[:100])
    fails(hoodoo_cli("scan", place), base.name)
    fails(hoodoo_cli("show", place, "--rows"), base.name)
    assert hoodoo_cli("show", place).code == 0


def test_a_name_with_line_breaks_makes_no_lines(tmp_path: Path, hoodoo_cli) -> None:
    fails(hoodoo_cli("show", tmp_path / "a\nhoodoo: b\x1b[31m"), "no table at")
    assert "\x1b" not in hoodoo_cli("show", tmp_path / "a\x1b[31m").err


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("show",),
        ("show", "a", "b"),
        ("show", "a", "--nonsense"),
        ("show", "a", "--option", "no-equals-sign"),
        ("show", "a", "--option", "=value"),
        ("scan", "a", "--limit", "-1"),
        ("scan", "a", "--limit", "many"),
        ("scan", "a", "--mode", "fast"),
        ("create", "a", "--schema", "id:long"),
        ("create", "a", "--record-key", "id"),
        ("create", "a", "--schema", "id:long", "--record-key", "id", "--type", "moo"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], hoodoo_cli) -> None:
    ran = hoodoo_cli(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage: " in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_strict_makes_an_unknown_option_an_error(command: str, place: Path, hoodoo_cli) -> None:
    wrong = ("-o", "hoodie.index.typ=BLOOM")
    assert hoodoo_cli(command, place, *wrong).code == 0
    fails(hoodoo_cli(command, place, *wrong, "-o", "hoodoo.strict=true"), "'hoodie.index.type'?")


def test_help_and_version(hoodoo_cli) -> None:
    shown = hoodoo_cli("--help")
    assert shown.code == 0
    for command in ("create", *COMMANDS):
        assert f"\n  {command} " in shown.out
        assert "--json" in hoodoo_cli(command, "--help").out
    assert hoodoo_cli("--version").out == f"hoodoo {hoodoo.__version__}\n"
