"""Columns with few values get a dictionary, those with many do not, and all come back."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hoodoo.format.parquet.base_file import (
    BaseFileWriter,
    ParquetOptions,
    columns_worth_a_dictionary,
)

ROWS = 300_000
RANDOM = np.random.default_rng(1)


def texts(distinct: int, width: int = 12) -> pa.Array:
    values = pa.array([f"{n:0{width}d}" for n in range(distinct)])
    return values.take(pa.array(RANDOM.integers(0, distinct, ROWS)))


def test_by_how_many_values_there_are() -> None:
    table = pa.table(
        {
            "constant": texts(1),
            "cities": texts(200),
            "drivers": texts(40_000),
            "wide": texts(20_000, 100),
            "unique": pa.array([f"{n:032d}" for n in range(ROWS)]),
            "flag": pa.array(RANDOM.random(ROWS) < 0.5),
            "small": pa.array(RANDOM.integers(0, 100, ROWS)),
            "fare": pa.array(RANDOM.random(ROWS)),
            "mostly": pa.array([None] * (ROWS - 500) + [str(n) for n in range(500)]),
        }
    )
    chosen = columns_worth_a_dictionary(table)
    assert chosen == ["constant", "cities", "drivers", "flag", "small", "mostly"]


def test_few_rows_always_fit() -> None:
    table = pa.table({"a": [str(n) for n in range(1000)]})
    assert columns_worth_a_dictionary(table) == ["a"]
    assert columns_worth_a_dictionary(table.slice(0, 0)) == ["a"]


def test_leaves_of_nested_columns_have_their_path() -> None:
    kind = pa.struct([("x", pa.list_(pa.field("element", pa.int32()))), ("y", pa.string())])
    table = pa.table({"a": pa.array([{"x": [1], "y": "b"}], kind), "b": ["c"]})
    assert columns_worth_a_dictionary(table) == ["a.x.list.element", "a.y", "b"]


def test_every_type_is_judged_and_written() -> None:
    values = {
        "string": ["a"],
        "binary": pa.array([b"a"]),
        "fixed": pa.array([b"abc"], pa.binary(3)),
        "int32": pa.array([1], pa.int32()),
        "float": pa.array([1.5], pa.float32()),
        "double": [1.5],
        "decimal": pa.array([Decimal("1.50")], pa.decimal128(30, 2)),
        "date": [date(2026, 1, 1)],
        "time": pa.array([time(1)], pa.time64("us")),
        "timestamp": pa.array([datetime(2026, 1, 1)], pa.timestamp("us", "UTC")),
        "list": [[1, 2]],
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "_hoodie_record_key": ["k"],
    }
    one = pa.table(values)
    large = one.take(pa.array(np.zeros(ROWS, np.int64)))
    assert len(columns_worth_a_dictionary(large)) == len(values) + 1, "a map has two leaves"
    out = io.BytesIO()
    options = ParquetOptions(row_group_bytes=1 << 22)
    writer = BaseFileWriter(out, large.schema, avro_schema="{}", options=options)
    for start in range(0, ROWS, 50_000):
        writer.write(large.slice(start, 50_000))
    writer.close()
    assert pq.read_table(pa.BufferReader(out.getvalue())).equals(large)


def test_dictionaries_are_written_as_the_texts_they_stand_for() -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("_hoodie_record_key", pa.string()), ("a", kind)])
    out = io.BytesIO()
    writer = BaseFileWriter(out, schema, avro_schema="{}", options=ParquetOptions())
    for start, words in enumerate((["x"], ["y", "x"], [])):
        column = pa.array(words, pa.string()).dictionary_encode()
        keys = [f"{start}{n}" for n in range(len(words))]
        writer.write(pa.table([pa.array(keys, pa.string()), column.cast(kind)], schema=schema))
    writer.close()
    read = pq.ParquetFile(pa.BufferReader(out.getvalue()))
    assert read.schema_arrow.field("a").type == pa.string()
    assert read.read()["a"].to_pylist() == ["x", "y", "x"]
    chunk = read.metadata.row_group(0).column(1)
    assert chunk.has_dictionary_page
    assert chunk.statistics.min == "x"
    assert chunk.statistics.max == "y"
