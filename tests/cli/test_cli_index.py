"""`hoodoo index`: what it prints, what it does, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo_testing.tables.fresh_indexes import find_differences

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("v", pa.int64())])


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table without a metadata table."""
    place = str(tmp_path / "t")
    table = hoodoo.create_table(
        place,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        options={"hoodie.metadata.enable": False},
    )
    table.upsert(pa.table({"id": [1, 2], "city": ["sf", "oslo"], "v": [1, 1]}, SCHEMA))
    return place


def test_index_is_planned_run_and_dropped(hoodoo_cli, place: str) -> None:
    assert "has no metadata table" in hoodoo_cli("index", "status", place).out
    columns = ("--columns", "v")
    planned = hoodoo_cli("index", "create", place, "column_stats", "--schedule", *columns)
    assert planned.code == 0, planned.err
    (plan,) = hoodoo_cli("plans", place, "--json").json
    assert plan["instant"] in planned.out
    states = {each["name"]: each for each in hoodoo_cli("index", "status", place, "--json").json}
    assert states["column_stats"]["state"] == "planned"
    assert states["column_stats"]["columns"][-1] == "v"
    done = hoodoo_cli("index", "run", place)
    assert done.out == f"indexing {plan['instant']}: built: column_stats, files\n"
    assert "no build is planned" in hoodoo_cli("index", "run", place).out
    assert hoodoo_cli("index", "create", place, "files").out.startswith("nothing to build")
    assert find_differences(hoodoo.open_table(place)._ref) == []
    lines = hoodoo_cli("index", "status", place).out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [
        ["column_stats", "complete"],
        ["files", "complete"],
    ]
    gone = hoodoo_cli("index", "drop", place, "files")
    assert gone.out == "dropped column_stats, files\n"


def test_index_is_built_at_once_and_rebuilt(hoodoo_cli, place: str) -> None:
    made = hoodoo_cli("index", "create", place, "record_index", "--json").json
    assert made["built"] == ["files", "record_index"]
    again = hoodoo_cli("index", "create", place, "record_index", "--rebuild", "--json").json
    assert again["built"] == ["record_index"]
    assert find_differences(hoodoo.open_table(place)._ref) == []


def test_wrong_names_end_with_one_line(hoodoo_cli, place: str) -> None:
    for command in ("create", "drop"):
        ran = hoodoo_cli("index", command, place, "nothing")
        assert (ran.code, ran.out) == (1, "")
        assert "no index" in ran.err
        assert ran.err.count("\n") == 1
