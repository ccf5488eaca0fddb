"""Rows as users have them: pandas, polars, dicts, a stream of batches; and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from checks import Wrong, check, check_equal, rows_by_key, say

import hoodoo

NOON = datetime(2026, 1, 5, 12)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("at", pa.timestamp("us"))]
)


def make_rows(*ids: int, fare: float) -> list[dict[str, Any]]:
    """Trips as dicts."""
    return [
        {"id": key, "city": None if key % 5 == 0 else "oslo", "fare": fare, "at": NOON}
        for key in ids
    ]


def run(place: Path) -> None:
    """Each kind of rows is written, and the table compared with a dict."""
    with_nanoseconds = pd.DataFrame(make_rows(1, 2, 3, fare=1.5))
    with_nanoseconds["at"] = with_nanoseconds["at"].astype("datetime64[ns]")
    table = hoodoo.create_table(place / "trips", schema=with_nanoseconds, record_key="id")
    model: dict[int, dict[str, Any]] = {}

    def upsert(kind: str, frame: Any, rows: list[dict[str, Any]]) -> None:
        table.upsert(frame, metadata={"kind": kind})
        model.update({row["id"]: row for row in rows})
        got = rows_by_key(table.to_arrow(columns=SCHEMA.names).to_pylist(), "id")
        check_equal(f"rows after a write of {kind}", got, model)

    upsert("pandas", with_nanoseconds, make_rows(1, 2, 3, fare=1.5))
    upsert("dicts", make_rows(3, 4, fare=2.5), make_rows(3, 4, fare=2.5))
    rows = make_rows(5, 6, fare=3.5)
    upsert("a table", pa.Table.from_pylist(rows, SCHEMA), rows)
    rows = make_rows(6, 7, 8, fare=4.5)
    upsert("a stream", pa.RecordBatchReader.from_batches(SCHEMA, stream_batches(rows)), rows)
    kinds = "pandas, dicts, an Arrow table and a stream of batches"
    if find_spec("polars"):
        import polars as pl

        rows = make_rows(1, 9, fare=5.5)
        upsert("polars", pl.DataFrame(rows), rows)
        check_equal("rows in polars", pl.DataFrame(table.to_batches()).height, len(model))
        kinds += ", polars"
    say(f"written: {kinds}")
    refuse_lost_digits(table)
    read_back(table, model)


def stream_batches(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """One batch for each row."""
    for row in rows:
        yield pa.RecordBatch.from_pylist([row], SCHEMA)


def refuse_lost_digits(table: hoodoo.Table) -> None:
    """A time that microseconds cannot hold is refused, with the column's name."""
    odd = pd.DataFrame(make_rows(1, fare=1.0))
    odd["at"] = odd["at"].astype("datetime64[ns]") + pd.Timedelta(1, unit="ns")
    before = table.history()[0].instant
    try:
        table.upsert(odd)
    except hoodoo.SchemaMismatch as error:
        check("column at" in str(error), f"the error does not name the column: {error}")
    else:
        raise Wrong("digits of a time in nanoseconds were lost without an error")
    check_equal("the newest commit", table.history()[0].instant, before)
    say("nanoseconds: kept if nothing is lost, refused otherwise")


def read_back(table: hoodoo.Table, model: dict[int, dict[str, Any]]) -> None:
    """to_pandas, head, count, history, time travel, and what a notebook shows."""
    frame = table.to_pandas(filter="city is not null")
    named = {key: row for key, row in model.items() if row["city"] is not None}
    check_equal("ids of a pandas frame", set(frame["id"]), set(named))
    check_equal("sum of a pandas frame", frame["fare"].sum(), sum_fares(named))
    check_equal("times of a pandas frame", set(frame["at"]), {pd.Timestamp(NOON)})
    check_equal("rows of head", table.head(3).num_rows, 3)
    check_equal("count", table.count(), len(model))
    check_equal("count with a filter", table.count(filter="city is null"), len(model) - len(named))
    commits = table.history()
    check_equal("metadata of the first commit", dict(commits[-1].metadata), {"kind": "pandas"})
    check_equal("count as of the first commit", table.count(as_of=commits[-1].instant), 3)
    tomorrow = datetime.now() + timedelta(days=1)
    check_equal("count as of tomorrow", table.count(as_of=tomorrow), len(model))
    page = table._repr_html_()
    check("<table" in page and "fare" in page, "a notebook would not see the columns")
    say(f"to_pandas, head, count, history ({len(commits)} commits), time travel, notebook: right")


def sum_fares(rows: dict[int, dict[str, Any]]) -> float:
    """The sum of all fares."""
    return sum(float(row["fare"]) for row in rows.values())
