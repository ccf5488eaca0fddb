"""Rows that lack a column, or have nothing but nulls in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import ConfigError, InputError, SchemaMismatch

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("f", pa.float64())])
KEY = "hoodie.write.set.null.for.missing.columns"


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    table.insert([{"id": "a", "n": 1, "f": 1.5}])
    return table


def read(table: hoodoo.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_arrow(columns=SCHEMA.names).to_pylist()
    return rows


@pytest.mark.xfail(
    strict=True,
    raises=pytest.fail.Exception,
    reason="25.5: an upsert that lacks a column writes null over stored values",
)
def test_upsert_that_lacks_a_column_is_refused(table: hoodoo.Table) -> None:
    with pytest.raises(InputError) as refusal:
        table.upsert([{"id": "a", "n": 2}])
    assert "merge" in str(refusal.value)
    assert KEY in str(refusal.value)
    assert read(table) == [{"id": "a", "n": 1, "f": 1.5}]


@pytest.mark.xfail(
    strict=True,
    raises=ConfigError,
    reason="25.5: the key that forbids null for missing columns is not accepted as false",
)
def test_nulls_for_missing_columns_can_be_forbidden(table: hoodoo.Table) -> None:
    careful = hoodoo.open_table(table.uri, {KEY: "false"})
    with pytest.raises(InputError, match="merge"):
        careful.upsert([{"id": "a", "n": 2}])
    careful.upsert([{"id": "a", "n": 2, "f": 2.5}])
    assert read(table) == [{"id": "a", "n": 2, "f": 2.5}]


@pytest.mark.xfail(
    strict=True,
    raises=SchemaMismatch,
    reason="27.10: a column of nothing but nulls is not written into a nullable column",
)
@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
def test_column_of_nulls_is_written(tmp_path: Path, make: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    table = hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    table.insert([{"id": 1, "note": "x"}])
    table.upsert(make({"id": [1], "note": [None]}))
    assert table.to_arrow(columns=["id", "note"]).to_pylist() == [{"id": 1, "note": None}]
