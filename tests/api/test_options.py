"""Options held against the write they come with and the table it is for: on the local engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import ConfigError, TableExists, UnsupportedFeature

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64())])
ROWS = pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [1, 2]}, SCHEMA)
OPERATION = "hoodie.datasource.write.operation"
PAYLOAD = "hoodie.datasource.write.payload.class"
MODE = "hoodie.write.record.merge.mode"
CALLS: dict[str, Callable[[hoodoo.Table], object]] = {
    "insert": lambda table: table.insert(ROWS),
    "bulk_insert": lambda table: table.bulk_insert(ROWS),
    "upsert": lambda table: table.upsert(ROWS),
    "delete": lambda table: table.delete(ROWS),
    "insert_overwrite": lambda table: table.insert_overwrite(ROWS),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(ROWS),
    "delete_partition": lambda table: table.delete_partitions(["p=x"]),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of most tests, written once."""
    place = tmp_path_factory.mktemp("written") / "t"
    make(place).insert(ROWS)
    return place


@pytest.fixture
def place(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "t"))


def make(place: Path, **options: str) -> hoodoo.Table:
    return hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="p", ordering="ts", options=options
    )


def expect_refusal(place: Path, key: str, value: str, call: str = "upsert") -> str:
    """Why the option fails a write: before it leaves anything, and no read of the same handle."""
    table = hoodoo.open_table(place, {key: value})
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    with pytest.raises(ConfigError) as caught:
        CALLS[call](table)
    assert (caught.value.key, caught.value.value) == (key, value)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    assert table.to_arrow().num_rows == 2
    return caught.value.reason


@pytest.mark.parametrize("call", CALLS)
def test_no_call_ignores_an_option_that_it_cannot_serve(place: Path, call: str) -> None:
    reason = expect_refusal(place, "hoodie.metadata.index.expression.enable", "true", call)
    assert "no index of that kind yet" in reason


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("operation", [*CALLS, "bootstrap", "nonsense"])
def test_an_operation_other_than_the_call_is_refused(
    place: Path, call: str, operation: str
) -> None:
    if operation == call or {operation, call} == {"insert", "bulk_insert"}:
        CALLS[call](hoodoo.open_table(place, {OPERATION: operation.upper()}))
        return
    reason = expect_refusal(place, OPERATION, operation, call)
    name = "delete_partitions" if operation == "delete_partition" else operation
    assert f"kind {call}" in reason
    assert f"table.{name}(" in reason or (operation not in CALLS and "one of" in reason)


@pytest.mark.parametrize(
    ("key", "value", "present"),
    [
        ("hoodie.datasource.write.recordkey.field", "id,ts", "id"),
        ("hoodie.table.recordkey.fields", "ts", "id"),
        ("hoodie.datasource.write.partitionpath.field", "", "p"),
        ("hoodie.datasource.write.precombine.field", "id", "ts"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ", "COPY_ON_WRITE"),
        ("hoodie.table.type", "MERGE_ON_READ", "COPY_ON_WRITE"),
        ("hoodie.table.name", "other", "t"),
        ("hoodie.write.table.version", "8", "9"),
        ("hoodie.base.file.format", "ORC", "PARQUET"),
        ("hoodie.datasource.write.hive_style_partitioning", "false", "true"),
        ("hoodie.datasource.write.keygenerator.class", "a.ComplexKeyGenerator", "SIMPLE"),
        ("hoodie.datasource.write.keygenerator.type", "CUSTOM", "SIMPLE"),
        ("hoodie.keygen.timebased.timestamp.type", "DATE_STRING", ""),
        ("hoodie.populate.meta.fields", "false", "true"),
        ("hoodie.table.cdc.enabled", "true", "false"),
        (MODE, "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"),
        (PAYLOAD, "a.OverwriteWithLatestAvroPayload", "EVENT_TIME_ORDERING"),
        (PAYLOAD, "a.PartialUpdateAvroPayload", "EVENT_TIME_ORDERING"),
        ("hoodie.datasource.write.record.merger.strategy", "mine", "EVENT_TIME_ORDERING"),
    ],
)
def test_what_the_table_is_cannot_be_changed_by_a_write(
    place: Path, key: str, value: str, present: str
) -> None:
    assert f"the table has {present!r} there" in expect_refusal(place, key, value)


def test_options_that_say_what_the_table_says_are_fine(place: Path) -> None:
    options = {
        "hoodie.datasource.write.recordkey.field": "ID",
        "hoodie.datasource.write.partitionpath.field": "p:SIMPLE",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "copy_on_write",
        "hoodie.datasource.write.table.name": "t",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": True,
        "hoodie.write.table.version": 9,
        "hoodie.database.name": "elsewhere",
        "hoodie.base.path": f"{place}/",
        PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        MODE: "event_time_ordering",
        OPERATION: "upsert",
        "hoodie.compact.inline": False,
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": 2,
        "hoodoo.strict": True,
    }
    hoodoo.open_table(place, options).upsert(ROWS)
    assert hoodoo.open_table(place, options).to_arrow().num_rows == 2


def test_another_base_path_is_refused(place: Path, tmp_path: Path) -> None:
    assert f"file://{place}" in expect_refusal(place, "hoodie.base.path", str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.metadata.index.expression.enable", "true"),
        ("hoodie.index.type", "RECORD_LEVEL_INDEX"),
        ("hoodie.table.name", "other"),
        ("hoodie.datasource.write.recordkey.field", "ts"),
        (PAYLOAD, "a.Mine"),
        ("hoodie.datasource.write.slash.separated.date.partitioning", "true"),
    ],
)
def test_a_table_is_not_created_with_options_that_it_would_not_keep(
    tmp_path: Path, key: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(tmp_path / "t", **{key: value})
    assert caught.value.key == key
    assert not (tmp_path / "t").exists()


def test_strict_refuses_unknown_options_at_every_door(place: Path, tmp_path: Path) -> None:
    wrong = {"hoodie.upsert.shufle.parallelism": "2", "hoodoo.strict": "true"}
    with pytest.raises(ConfigError, match=r"did you mean 'hoodie\.upsert\.shuffle\.parallelism'"):
        hoodoo.open_table(place, wrong)
    with pytest.raises(ConfigError, match="did you mean"):
        make(tmp_path / "new", **wrong)
    assert not (tmp_path / "new").exists()
    with pytest.raises(TableExists):
        make(place, **{"hoodoo.strict": "true"})
    hoodoo.open_table(place, {**wrong, "hoodoo.strict": False}).upsert(ROWS)


def test_properties_that_apache_hudi_stored_are_no_options(place: Path) -> None:
    append_property(place, "hoodie.metadata.enable=true\nhoodie.who.knows=1")
    hoodoo.open_table(place, {"hoodoo.strict": "true"}).upsert(ROWS)


def test_a_table_with_a_directory_per_day_month_and_year_is_not_written(place: Path) -> None:
    append_property(place, "hoodie.datasource.write.slash.separated.date.partitioning=true")
    table = hoodoo.open_table(place)
    with pytest.raises(UnsupportedFeature, match="yyyy/MM/dd"):
        table.insert(ROWS)
    assert table.to_arrow().num_rows == 2


def append_property(place: Path, line: str) -> None:
    path = place / ".hoodie" / "hoodie.properties"
    path.write_text(f"{path.read_text()}{line}\n")
