"""Every table that Apache Hudi wrote reads to exactly the rows that the `hudi` wheel reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.fixtures import fixture_tables
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.table.ref import open_ref

Unpack = Callable[[str], Path]

TIME_TRAVEL = [
    "cow/v9_txns_simple_nometa",
    "mor-avro/v9_txns_simple_meta",
    "mor-avro/v9_txns_nonpart_meta",
    "cow/v9_txns_complex_meta",
    "mor-parquet/v6_simplekeygen_nonhivestyle",
]


def test_there_are_fixtures(fixtures: Path) -> None:
    assert len(fixture_tables()) == 29


@pytest.mark.parametrize("name", fixture_tables())
def test_latest_snapshot(name: str, unpack: Unpack) -> None:
    path = unpack(name)
    ours = hoodoo.open_table(str(path)).to_arrow()
    assert rows_of(ours) == wheel_rows(path)


@pytest.mark.parametrize("name", fixture_tables())
def test_schema_is_that_of_the_rows(name: str, unpack: Unpack) -> None:
    table = hoodoo.open_table(str(unpack(name)))
    rows = table.to_arrow()
    assert [f for f in rows.schema if not f.name.startswith("_hoodie_")] == list(table.schema)


@pytest.mark.parametrize("name", TIME_TRAVEL)
def test_as_of_each_commit(name: str, unpack: Unpack) -> None:
    path = unpack(name)
    table = hoodoo.open_table(str(path))
    commits = open_ref(str(path)).load_timeline().commits
    assert len(commits) >= 2
    for instant in commits:
        ours = table.to_arrow(as_of=instant.requested_time)
        assert rows_of(ours) == wheel_rows(path, as_of=instant.requested_time), instant


@pytest.mark.slow
@pytest.mark.parametrize("name", fixture_tables())
def test_columns_and_filters_agree_with_arrow_on_all_rows(name: str, unpack: Unpack) -> None:
    table = hoodoo.open_table(str(unpack(name)))
    everything = table.to_arrow()
    for field in everything.schema:
        if everything.num_rows == 0 or pa.types.is_nested(field.type):
            continue
        value = everything[field.name][0].as_py()
        if value is None:
            continue
        mask = pa.compute.equal(everything[field.name], everything[field.name][0])
        expected = everything.filter(mask).select([field.name])
        found = table.to_arrow(columns=[field.name], filter=[(field.name, "=", value)])
        assert rows_of(found) == rows_of(expected), field
