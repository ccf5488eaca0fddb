"""What is decided before Spark reads anything: pure, and without a session."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hoodoo.model.dates import TimestampRule
from hoodoo.model.keys import KeyGenerator, KeyRule
from hoodoo.model.paths import PartitionPath
from hoodoo.spark.placement import balance_loads
from hoodoo.spark.read.native_scan import can_read_as, first_types, tells_values

SCHEMA = pa.schema([("s", pa.string()), ("n", pa.int32()), ("d", pa.date32()), ("x", pa.float64())])


def rule(*fields: str, **changes: object) -> KeyRule:
    given = {"generator": KeyGenerator.COMPLEX, "hive_style": True, **changes}
    return KeyRule(record_fields=("s",), partition_fields=fields, **given)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("s=a", True),
        ("s=a=b", True),
        ("s=007", True),
        ("s=__HIVE_DEFAULT_PARTITION__", False),
        ("s=default", False),
        ("s=50%", False),
        ("s=a/b", False),
        ("a", False),
        ("t=a", False),
        ("", False),
    ],
)
def test_text_paths_tell_values_unless_ambiguous(path: str, told: bool) -> None:
    assert tells_values(rule("s"), SCHEMA, PartitionPath(path)) is told


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("n=1", True),
        ("n=-1", True),
        ("n=0", True),
        ("n=__HIVE_DEFAULT_PARTITION__", True),
        ("n=007", False),
        ("n=1.0", False),
        ("n=-0", False),
        ("n= 1", False),
        ("n=1١", False),
    ],
)
def test_number_paths_tell_values_in_canonical_form_only(path: str, told: bool) -> None:
    assert tells_values(rule("n"), SCHEMA, PartitionPath(path)) is told


def test_paths_of_other_types_and_generators_tell_no_values() -> None:
    day = PartitionPath("d=2026-01-01")
    assert tells_values(rule("d"), SCHEMA, day)
    assert not tells_values(rule("d"), SCHEMA, PartitionPath("d=20454"))
    assert not tells_values(rule("d", hive_style=False), SCHEMA, PartitionPath("2026-01-01"))
    assert not tells_values(rule("d", generator=KeyGenerator.CUSTOM), SCHEMA, day)
    assert not tells_values(rule("x"), SCHEMA, PartitionPath("x=1.0"))
    assert not tells_values(rule("other"), SCHEMA, PartitionPath("other=1"))
    assert tells_values(rule("s", url_encode=True), SCHEMA, PartitionPath("s=50%25"))
    assert not tells_values(rule("s", url_encode=True), SCHEMA, PartitionPath("s=50%"))
    assert tells_values(rule("d", "n"), SCHEMA, PartitionPath("d=2026-01-01/n=3"))
    assert not tells_values(rule("d", "n"), SCHEMA, PartitionPath("d=2026-01-01/n=x"))


def test_time_based_paths_tell_no_values() -> None:
    timed = rule("d", generator=KeyGenerator.SIMPLE, timestamp=object.__new__(TimestampRule))
    assert not tells_values(timed, SCHEMA, PartitionPath("d=2026-01-01"))


def test_loads_are_balanced() -> None:
    assert balance_loads([], most=4) == []
    assert balance_loads([5, 5], most=4) == [[0], [1]]
    loads = balance_loads([8, 1, 1, 1, 1, 4], most=2)
    assert sorted(n for load in loads for n in load) == [0, 1, 2, 3, 4, 5]
    assert sorted(sum([8, 1, 1, 1, 1, 4][n] for n in load) for load in loads) == [8, 8]
    assert len(balance_loads([2**30] * 100, most=4)) == 100
    assert len(balance_loads([2**20] * 100, most=4)) == 4


def test_the_oldest_type_of_each_column_is_found_in_few_steps() -> None:
    old = pa.schema([("a", pa.int32())])
    grown = pa.schema([("a", pa.int64()), ("b", pa.int32())])
    last = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    schemas = [old] * 100 + [grown] * 300 + [last] * 600
    asked: set[int] = set()

    def schema_of(number: int) -> pa.Schema:
        asked.add(number)
        return schemas[number]

    found = dict(first_types(["a", "b", "c", "never"], len(schemas), schema_of))
    assert found == {"a": pa.int32(), "b": pa.int32(), "c": pa.bool_()}
    assert len(asked) < 40
    assert dict(first_types(["a"], 0, schema_of)) == {}


def test_types_that_spark_takes() -> None:
    inner = pa.list_(pa.struct([("a", pa.int32())]))
    grown = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())]))
    assert can_read_as(inner, grown)
    assert not can_read_as(pa.list_(pa.int64()), pa.list_(pa.float64()))
    assert not can_read_as(pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.string()))
    assert can_read_as(pa.timestamp("ms"), pa.timestamp("us", "UTC"))
    assert not can_read_as(pa.int64(), pa.timestamp("us"))
    assert can_read_as(pa.decimal128(5, 2), pa.decimal128(7, 4))
    assert not can_read_as(pa.decimal128(5, 2), pa.decimal128(5, 3))
