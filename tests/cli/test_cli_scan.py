"""scan: rows as text and as JSON lines, whatever their types."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.fixtures import fixture_tables

import hoodoo
from hoodoo.cli.output.rows import json_lines

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "trips"
    table = hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    ids = list(range(30))
    cities = ["sf" if number % 3 else "la" for number in ids]
    table.insert(pa.table({"id": ids, "city": cities, "fare": [float(n) for n in ids]}, SCHEMA))
    table.upsert(pa.table({"id": [1], "city": ["sf"], "fare": [99.0]}, SCHEMA))
    return place


def objects(out: str) -> list[dict[str, Any]]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in out.splitlines()]


@pytest.mark.parametrize("table", fixture_tables())
def test_every_fixture_as_json_has_its_rows(table: str, unpack, hoodoo_cli) -> None:
    place = unpack(table)
    rows = objects(hoodoo_cli("scan", place, "--json", "--meta").out)
    found = hoodoo.open_table(str(place)).to_arrow()
    assert len(rows) == len(found)
    assert all(list(row) == found.column_names for row in rows)
    for name in found.column_names:
        if pa.types.is_string(found.schema.field(name).type):
            assert [row[name] for row in rows] == found.column(name).to_pylist()


def test_text_shows_twenty_rows_without_meta_columns(trips: Path, hoodoo_cli) -> None:
    lines = hoodoo_cli("scan", trips).out.splitlines()
    assert lines[0].split() == ["id", "city", "fare"]
    assert len(lines) == 2 + 20 + 2
    assert lines[-1] == "the first 20 rows; --limit 0 shows all"
    assert len(hoodoo_cli("scan", trips, "--limit", "0").out.splitlines()) == 2 + 30
    assert len(hoodoo_cli("scan", trips, "--limit", "30").out.splitlines()) == 2 + 30


def test_json_shows_all_unless_limited(trips: Path, hoodoo_cli) -> None:
    assert len(objects(hoodoo_cli("scan", trips, "--json").out)) == 30
    assert len(objects(hoodoo_cli("scan", trips, "--json", "--limit", "7").out)) == 7


def test_columns_filter_and_mode(trips: Path, hoodoo_cli) -> None:
    ran = hoodoo_cli("scan", trips, "--json", "--columns", "fare, id", "--filter", "id < 3")
    assert sorted(objects(ran.out), key=lambda row: row["id"]) == [
        {"fare": 0.0, "id": 0},
        {"fare": 99.0, "id": 1},
        {"fare": 2.0, "id": 2},
    ]
    base_only = hoodoo_cli(
        "scan", trips, "--json", "--mode", "read_optimized", "--filter", "city = 'sf' and id = 1"
    )
    assert objects(base_only.out) == [{"id": 1, "city": "sf", "fare": 1.0}]
    meta = hoodoo_cli("scan", trips, "--json", "--columns", "_hoodie_record_key", "--limit", "1")
    assert list(objects(meta.out)[0]) == ["_hoodie_record_key"]


def test_as_of(trips: Path, hoodoo_cli) -> None:
    first = hoodoo.open_table(str(trips)).timeline()[0].requested_time
    words = ("scan", trips, "--json", "--filter", "id = 1")
    assert objects(hoodoo_cli(*words).out)[0]["fare"] == 99.0
    assert objects(hoodoo_cli(*words, "--as-of", first).out)[0]["fare"] == 1.0
    assert objects(hoodoo_cli(*words, "--as-of", "2020-01-01").out) == []


EVERY = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("ms")),
        ("clock", pa.time64("us")),
        ("price", pa.decimal128(20, 3)),
        ("raw", pa.binary()),
        ("four", pa.binary(4)),
        ("ratio", pa.float64()),
        ("text", pa.string()),
        ("spot", pa.struct([("day", pa.date32()), ("raw", pa.binary()), ("n", pa.int32())])),
        ("all", pa.list_(pa.decimal128(5, 1))),
        ("by", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    ]
)
MOMENT = datetime(2024, 1, 15, 10, 30, 0, 123456, tzinfo=UTC)
FULL = {
    "id": 2**62,
    "flag": True,
    "day": date(2024, 1, 15),
    "at": MOMENT,
    "wall": datetime(2024, 1, 15, 10, 30, 0, 123000),
    "clock": time(10, 30, 0, 5),
    "price": Decimal("12345678901234567.890"),
    "raw": b"\x00\xff",
    "four": b"\x00\x01\xfe\xff",
    "ratio": 0.1,
    "text": 'a "b"\n\t日本\x1b',
    "spot": {"day": date(1969, 12, 31), "raw": b"x", "n": 1},
    "all": [Decimal("1.5"), None],
    "by": [("k", MOMENT), ("none", None)],
}
EMPTY = dict.fromkeys(EVERY.names) | {"id": 1}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_every_type_as_json(table_type: str, tmp_path: Path, hoodoo_cli) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=EVERY, record_key="id", table_type=table_type
    )
    table.insert(pa.Table.from_pylist([FULL, EMPTY], schema=EVERY))
    rows = objects(hoodoo_cli("scan", tmp_path / "t", "--json").out)
    empty, full = sorted(rows, key=lambda row: row["id"])
    assert empty == EMPTY
    assert full["id"] == 2**62
    assert full["flag"] is True
    assert full["day"] == "2024-01-15"
    assert full["at"] == "2024-01-15T10:30:00.123456Z"
    assert datetime.fromisoformat(full["at"]) == FULL["at"]
    assert datetime.fromisoformat(full["wall"]) == FULL["wall"]
    assert time.fromisoformat(full["clock"]) == FULL["clock"]
    assert full["price"] == "12345678901234567.890"
    assert base64.b64decode(full["raw"]) == FULL["raw"]
    assert base64.b64decode(full["four"]) == FULL["four"]
    assert (full["ratio"], full["text"]) == (FULL["ratio"], FULL["text"])
    assert full["spot"] == {"day": "1969-12-31", "raw": "eA==", "n": 1}
    assert full["all"] == ["1.5", None]
    assert full["by"] == {"k": "2024-01-15T10:30:00.123456Z", "none": None}
    shown = hoodoo_cli("scan", tmp_path / "t").out
    assert r'a "b"\n\t日本\x1b' in shown
    assert '{"day": "1969-12-31", "raw": "eA==", "n": 1}' in shown


def test_values_that_json_or_python_lack() -> None:
    rows = pa.table(
        {
            "ratio": [float("nan"), float("inf"), float("-inf"), -0.0],
            "far": pa.array([2**62, -(2**62), 0, None], pa.timestamp("us", "UTC")),
            "day": pa.array([2**31 - 1, -(2**31), 0, None], pa.int32()).cast(pa.date32()),
            "many": pa.array([[float("nan")], [], None, [1.0]], pa.list_(pa.float64())),
        }
    )
    found = objects("\n".join(json_lines(rows)))
    assert [row["ratio"] for row in found] == ["NaN", "Infinity", "-Infinity", 0.0]
    assert found[0]["far"].startswith("17036-")
    assert (found[2]["far"], found[2]["day"]) == ("1970-01-01T00:00:00.000000Z", "1970-01-01")
    assert found[3]["far"] is None
    assert [row["many"] for row in found] == [["NaN"], [], None, [1.0]]


def test_text_that_is_not_utf8_is_a_typed_error() -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    with pytest.raises(hoodoo.HoodooError, match="UTF-8"):
        list(json_lines(pa.table({"a": bad})))


def test_an_empty_table(tmp_path: Path, hoodoo_cli) -> None:
    hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    assert objects(hoodoo_cli("scan", tmp_path / "t", "--json").out) == []
    assert hoodoo_cli("scan", tmp_path / "t").rows[0] == SCHEMA.names
