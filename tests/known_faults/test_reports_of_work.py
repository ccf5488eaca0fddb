"""What operations say that they did, and what they leave undone without a word."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.19: a late delete that loses in a merge-on-read table is counted as a deleted row",
)
def test_late_delete_that_loses_is_not_counted(tmp_path: Path) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=pa.schema([("id", pa.int64()), ("v", pa.string()), ("ts", pa.int64())]),
        record_key="id",
        ordering="ts",
        table_type="mor",
    )
    table.insert([{"id": 1, "v": "new", "ts": 10}])
    done = table.delete([{"id": 1, "ts": 1}])
    assert table.count() == 1
    assert done is not None
    assert done.stats.deleted == 0


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.19: `hoodoo upkeep` of several tables serves none of them if one is missing",
)
def test_upkeep_serves_a_table_beside_one_that_is_missing(tmp_path: Path) -> None:
    place, missing = str(tmp_path / "t"), str(tmp_path / "missing")
    schema = pa.schema([("id", pa.int64())])
    quiet = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
    table = hoodoo.create_table(place, schema=schema, record_key="id", options=quiet)
    table.insert([{"id": 1}])
    table.insert([{"id": 2}])
    plan = table.schedule_clustering()
    ran = CliRunner().invoke(app, ["upkeep", place, missing])
    assert ran.exit_code != 0
    assert missing in ran.output
    assert table.plans() == [], f"{plan} is pending"


@pytest.mark.xfail(
    strict=True,
    raises=AttributeError,
    reason="25.19: a table has no call for what `hoodoo upkeep` does",
)
def test_upkeep_of_a_table_runs_what_is_due(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    quiet = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
    table = hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id", options=quiet)
    table.insert([{"id": 1}])
    table.insert([{"id": 2}])
    table.schedule_clustering()
    cast(Any, table).upkeep()
    assert table.plans() == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.12: keys of metrics have no effect, and nobody is told",
)
def test_key_of_metrics_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = pa.schema([("id", pa.int64())])
    hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    with caplog.at_level(logging.WARNING, "hoodoo"):
        table = hoodoo.open_table(str(tmp_path / "t"), {"hoodie.metrics.on": "true"})
        table.insert([{"id": 1}])
    assert "hoodie.metrics.on" in caplog.text
