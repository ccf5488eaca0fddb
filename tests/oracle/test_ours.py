"""Tables that hoodoo writes are read by the `hudi` wheel to the same rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.wheel import rows_of, wheel_rows

import hoodoo

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.float64())]
)
TYPES = ["cow", "mor"]
BLOCKS = {"cow": ["parquet"], "mor": ["parquet", "avro"]}
KINDS = [(kind, block) for kind in TYPES for block in BLOCKS[kind]]


def rows(*given: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = list(zip(*given, strict=True)) if given else [[] for _ in schema]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def check(table: hoodoo.Table, expected: list[dict[str, Any]]) -> None:
    """Both readers see the expected rows, and agree on the meta columns."""
    ours = table.to_arrow()
    assert rows_of(ours) == wheel_rows(table.uri)
    names = [name for name in ours.column_names if not name.startswith("_hoodie_")]
    assert rows_of(ours.select(names)) == rows_of(pa.Table.from_pylist(expected, table.schema))


def make(path: Path, kind: str, block: str = "parquet", **arguments: Any) -> hoodoo.Table:
    options = {"hoodie.logfile.data.block.format": block, **arguments.pop("options", {})}
    arguments = {"record_key": "id", "partition_by": "city", "ordering": "ts", **arguments}
    arguments.setdefault("schema", SCHEMA)
    return hoodoo.create_table(str(path / "trips"), table_type=kind, options=options, **arguments)


def as_dicts(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


@pytest.mark.parametrize(("kind", "block"), KINDS)
def test_insert_update_delete(tmp_path: Path, kind: str, block: str) -> None:
    table = make(tmp_path, kind, block)
    check(table, [])
    table.insert(rows(("a", "sf", 1, 1.0), ("b", "sf", 1, 2.0), ("c", "ny", 1, 3.0)))
    check(
        table,
        as_dicts(rows(("a", "sf", 1, 1.0), ("b", "sf", 1, 2.0), ("c", "ny", 1, 3.0))),
    )
    result = table.upsert(rows(("a", "sf", 2, 9.0), ("d", "ny", 1, 4.0), ("b", "sf", 0, 7.0)))
    assert result.stats.inserted == 1
    left = [("a", "sf", 2, 9.0), ("b", "sf", 1, 2.0), ("c", "ny", 1, 3.0), ("d", "ny", 1, 4.0)]
    check(table, as_dicts(rows(*left)))
    table.delete(rows(("c", "ny", 1, 0.0)).select(["id", "city"]))
    del left[2]
    check(table, as_dicts(rows(*left)))
    table.delete(["a", "nobody"])
    del left[0]
    check(table, as_dicts(rows(*left)))


@pytest.mark.parametrize("kind", TYPES)
def test_overwrites_and_dropped_partitions(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.insert(rows(("a", "sf", 1, 1.0), ("b", "ny", 1, 2.0), ("c", "la", 1, 3.0)))
    table.upsert(rows(("a", "sf", 2, 1.5)))
    table.insert_overwrite(rows(("x", "sf", 1, 5.0)))
    left = [("x", "sf", 1, 5.0), ("b", "ny", 1, 2.0), ("c", "la", 1, 3.0)]
    check(table, as_dicts(rows(*left)))
    table.delete_partitions(["city=ny"])
    del left[1]
    check(table, as_dicts(rows(*left)))
    table.insert_overwrite_table(rows(("z", "ny", 1, 6.0)))
    check(table, as_dicts(rows(("z", "ny", 1, 6.0))))
    table.upsert(rows(("z", "ny", 2, 7.0), ("y", "sf", 1, 8.0)))
    check(table, as_dicts(rows(("z", "ny", 2, 7.0), ("y", "sf", 1, 8.0))))


@pytest.mark.parametrize(("kind", "block"), KINDS)
def test_schema_evolution(tmp_path: Path, kind: str, block: str) -> None:
    narrow = pa.schema(
        [("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("n", pa.int32())]
    )
    table = make(tmp_path, kind, block, schema=narrow)
    table.insert(rows(("a", "sf", 1, 1), ("b", "sf", 1, 2), schema=narrow))
    wide = narrow.set(3, pa.field("n", pa.int64())).append(pa.field("note", pa.string()))
    table.upsert(rows(("a", "sf", 2, 2**40, "hi"), ("c", "ny", 1, 3, None), schema=wide))
    expected = [
        {"id": "a", "city": "sf", "ts": 2, "n": 2**40, "note": "hi"},
        {"id": "b", "city": "sf", "ts": 1, "n": 2, "note": None},
        {"id": "c", "city": "ny", "ts": 1, "n": 3, "note": None},
    ]
    check(table, expected)
    table.upsert(rows(("b", "sf", 3, 5), schema=narrow))
    expected[1] = {"id": "b", "city": "sf", "ts": 3, "n": 5, "note": None}
    check(table, expected)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("encode", [False, True])
@pytest.mark.parametrize("hive", [False, True])
def test_odd_partition_values(tmp_path: Path, kind: str, encode: bool, hive: bool) -> None:
    options = {
        "hoodie.datasource.write.partitionpath.urlencode": encode,
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    table = make(tmp_path, kind, options=options)
    values = ["new york", "zürich 東京", None, "", "50%", "a+b", "x}y"]
    if encode:
        values += ["a/b", "a:b", "a=b", "q?", "back\\slash", "[{*'\"#^]}"]
    else:
        values += ["a/b"]
    given = [(f"k{n}", value, 1, float(n)) for n, value in enumerate(values)]
    table.insert(rows(*given))
    check(table, as_dicts(rows(*given)))
    changed = [(key, value, 2, v + 0.5) for key, value, _, v in given]
    table.upsert(rows(*changed))
    check(table, as_dicts(rows(*changed)))
    for key, value, _, _ in changed:
        if value is not None and value != "":
            found = table.to_arrow(filter=[("city", "=", value)])
            assert found["id"].to_pylist() == [key]


@pytest.mark.parametrize("kind", TYPES)
def test_several_keys_several_partitions_and_none(tmp_path: Path, kind: str) -> None:
    given = [("a", "sf", 1, 1.0), ("a", "ny", 1, 2.0), ("b", "ny", 1, 3.0)]
    multi = make(tmp_path / "multi", kind, record_key=["id", "ts"], partition_by=["city", "id"])
    multi.insert(rows(*given))
    multi.upsert(rows(("b", "ny", 1, 4.0)))
    left = [*given[:2], ("b", "ny", 1, 4.0)]
    check(multi, as_dicts(rows(*left)))
    keys = set(multi.to_arrow()["_hoodie_record_key"].to_pylist())
    assert keys == {"id:a,ts:1", "id:b,ts:1"}
    flat = make(tmp_path / "flat", kind, partition_by=None, record_key=["id", "city"])
    flat.insert(rows(*given))
    flat.upsert(rows(("b", "ny", 2, 4.0)))
    flat.delete(["id:a,city:sf"])
    check(flat, as_dicts(rows(("a", "ny", 1, 2.0), ("b", "ny", 2, 4.0))))


ALL_TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("at_ms", pa.timestamp("ms", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.decimal128(38, 9)),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("lat", pa.float64()), ("name", pa.string())])),
        ("legs", pa.list_(pa.struct([("km", pa.int32()), ("note", pa.string())]))),
        ("deep", pa.struct([("inner", pa.struct([("xs", pa.list_(pa.int64()))]))])),
    ]
)


def all_types(number: int) -> dict[str, Any]:
    if number % 3 == 2:
        return {"id": number, **dict.fromkeys(ALL_TYPES.names[1:])}
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": -number,
        "real": number / 4,
        "double": number / 3,
        "text": f"täxt {number}",
        "raw": bytes([number, 0, 255]),
        "day": dt.date(1969, 12, 30) + dt.timedelta(days=number),
        "at": dt.datetime(2026, 1, 1, 0, 0, 0, number, tzinfo=dt.UTC),
        "at_ms": dt.datetime(1969, 12, 31, 23, 59, 59, 1000 * number, tzinfo=dt.UTC),
        "price": Decimal(f"-{number}.25"),
        "big": Decimal(f"{10**20 + number}.000000001"),
        "tags": ["a", None, "ü"][: number + 1],
        "scores": [("x", number), ("y", None)],
        "place": {"lat": 1.5, "name": None},
        "legs": [{"km": number, "note": "n"}, {"km": None, "note": None}],
        "deep": {"inner": {"xs": [1, None, number]}},
    }


@pytest.mark.parametrize(("kind", "block"), KINDS)
def test_all_column_types(tmp_path: Path, kind: str, block: str) -> None:
    table = make(
        tmp_path, kind, block, schema=ALL_TYPES, record_key="id", partition_by=None, ordering=None
    )
    given = [all_types(number) for number in range(9)]
    table.insert(pa.Table.from_pylist(given, ALL_TYPES))
    check(table, given)
    changed = [{**all_types(number + 1), "id": number} for number in range(0, 9, 2)]
    table.upsert(pa.Table.from_pylist(changed, ALL_TYPES))
    left = {row["id"]: row for row in given} | {row["id"]: row for row in changed}
    check(table, list(left.values()))


@pytest.mark.parametrize("kind", TYPES)
def test_timestamp_based_partitions(tmp_path: Path, kind: str) -> None:
    package = "org.apache.hudi.keygen"
    table = make(
        tmp_path,
        kind,
        partition_by="ts",
        options={
            "hoodie.datasource.write.keygenerator.class": f"{package}.TimestampBasedKeyGenerator",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
            "hoodie.keygen.timebased.timezone": "UTC",
            "hoodie.datasource.write.hive_style_partitioning": "false",
        },
    )
    first, second = 1_700_000_000_000, 1_700_090_000_000
    table.insert(rows(("a", "sf", first, 1.0), ("b", "sf", second, 2.0)))
    table.upsert(rows(("a", "sf", first, 3.0)))
    check(table, as_dicts(rows(("a", "sf", first, 3.0), ("b", "sf", second, 2.0))))
    paths = set(table.to_arrow()["_hoodie_partition_path"].to_pylist())
    assert paths == {"2023/11/14", "2023/11/15"}
