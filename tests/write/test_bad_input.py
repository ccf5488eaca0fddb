"""What cannot be written is refused before anything is visible, in one clear line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import (
    ConfigError,
    InputError,
    NoSuchTable,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
    UnusablePath,
)
from hoodoo.table.ref import open_ref

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("n", pa.int32())])


def make(path: Path, **arguments: Any) -> hoodoo.Table:
    sound = {"schema": SCHEMA, "record_key": "id", "partition_by": "p", "ordering": "ts"}
    return hoodoo.create_table(str(path / "t"), **{**sound, **arguments})


def row(**changes: Any) -> pa.Table:
    values = {"id": "a", "p": "x", "ts": 1, "n": 1, **changes}
    return pa.Table.from_pylist([values], SCHEMA)


def invalid_text() -> pa.Array:
    """One text that is not UTF-8; Arrow does not look."""
    return pa.array([b"a\xffb"]).view(pa.string())


BAD_ROWS = {
    "null key": row(id=None),
    "empty key": row(id=""),
    "null ordering": row(ts=None),
    "twice the same column": pa.table([["a"], ["x"], ["y"], [1]], names=["id", "p", "P", "ts"]),
    "text in a number": pa.table({"id": ["a"], "p": ["x"], "ts": ["now"], "n": [1]}),
    "no key column": row().drop_columns(["id"]),
    "no partition column": row().drop_columns(["p"]),
    "column spelled otherwise": row().rename_columns(["ID", "p", "ts", "n"]),
    "unsigned 64 bit": row().append_column("u", pa.array([2**63], pa.uint64())),
    "a column without a type": row().append_column("u", pa.nulls(1)),
    "a key that is not UTF-8": row().set_column(0, "id", invalid_text()),
    "a partition that is not UTF-8": row().set_column(1, "p", invalid_text()),
    "a new column that is not UTF-8": row().append_column("u", invalid_text()),
    "a list of what is not UTF-8": row().append_column(
        "u", pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), invalid_text())
    ),
    "a dictionary of what is not UTF-8": row().append_column(
        "u", pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), invalid_text())
    ),
    "slash at the end": row(p="x/"),
    "dots": row(p=".."),
    "the table's own directory": row(p=".hoodie"),
    "below the table's own directory": row(p=".hoodie/timeline"),
    "the table's own directory, further down": row(p="x/.hoodie"),
    "a file of the table's own": row(p="x/.hoodie_partition_metadata"),
    "a NUL": row(p="a\0b"),
    "a long name": row(p="x" * 256),
    "a long name in UTF-8": row(p="é" * 128),
    "a long path": row(p="/".join(["x" * 200] * 25)),
    "a list of dicts": [{"id": "a"}],
    "nothing": None,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a row, whose partitions may have any name; written once."""
    place = tmp_path_factory.mktemp("written")
    table = make(place, options={"hoodie.datasource.write.hive_style_partitioning": False})
    table.insert(row(id="before"))
    return place / "t"


@pytest.mark.parametrize("what", list(BAD_ROWS))
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "insert_overwrite"])
def test_bad_rows_fail_the_write_and_leave_nothing(
    written: Path, tmp_path: Path, what: str, operation: str
) -> None:
    table = hoodoo.open_table(shutil.copytree(written, tmp_path / "t"))
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(InputError) as caught:
        getattr(table, operation)(BAD_ROWS[what])
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.rglob("*")) == before, "nothing was written"
    assert table.to_arrow()["id"].to_pylist() == ["before"]


def test_text_that_is_not_utf_8_names_its_column(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(InputError, match="column 'u' has text that is not UTF-8"):
        table.insert(row().append_column("u", invalid_text()))
    with pytest.raises(InputError, match="column 'id' has text that is not UTF-8"):
        table.delete(row().set_column(0, "id", invalid_text()))
    assert table.timeline() == []


def test_paths_may_be_path_objects(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=SCHEMA, record_key="id")
    assert hoodoo.open_table(tmp_path / "t").uri == table.uri == f"file://{tmp_path}/t"
    assert table.name == "t"
    for wrong in (b"t", 7, None):
        with pytest.raises(InputError, match="a table's path is a str"):
            hoodoo.open_table(wrong)  # type: ignore[arg-type] # on purpose


def test_partitions_that_look_odd_but_work(tmp_path: Path) -> None:
    odd = [".hoodie_x", "x.hoodie", "a\tb", "a\nb", "x" * 255, "é" * 127, "a b", "a%2Fb", "..."]
    plain = {"hoodie.datasource.write.hive_style_partitioning": False}
    hive = make(tmp_path / "hive")
    for table in (make(tmp_path / "plain", options=plain), hive):
        names = [name for name in odd if table is not hive or len(name.encode()) < 254]
        table.insert(pa.concat_tables(row(id=name, p=name) for name in names))
        assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(names)
    hive.insert(row(id="own", p=".hoodie"))
    assert hive.to_arrow(filter="id = 'own'")["p"].to_pylist() == [".hoodie"]


def test_line_breaks_and_batched_markers(tmp_path: Path) -> None:
    table = make(tmp_path, options={"hoodie.write.markers.type": "timeline_server_based"})
    with pytest.raises(InputError, match=r"hoodie\.write\.markers\.type=direct"):
        table.insert(row(p="a\nb"))
    assert table.timeline() == []


@pytest.mark.parametrize("partition", ["a\0b", "x" * 300, "/".join(["x" * 200] * 25)])
def test_a_write_to_a_place_that_cannot_be_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: str
) -> None:
    """As writers did that did not look at the paths, or that know no better."""
    table = make(tmp_path, options={"hoodie.datasource.write.hive_style_partitioning": False})
    table.insert(row(id="before"))
    with monkeypatch.context() as unchecked:
        unchecked.setattr(
            "hoodoo.write.planning.prepare.refuse_unusable_partitions", lambda *_: None
        )
        with pytest.raises(UnusablePath):
            table.upsert(row(p=partition))
    assert {report.state for report in table.timeline()} == {"completed"}
    assert table.recover().left_pending == ()
    table.upsert(row(id="after"))
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["after", "before"]


def test_narrowing_and_retyping_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(row())
    with pytest.raises(SchemaMismatch, match="n"):
        table.upsert(row().set_column(3, "n", pa.array(["text"])))


@pytest.mark.parametrize("given", ["a", 7, None, {"id": "a"}])
def test_bad_keys_to_delete(tmp_path: Path, given: object) -> None:
    table = make(tmp_path)
    with pytest.raises(InputError):
        table.delete(given)
    assert len(table.timeline()) == 0


def test_a_condition_given_as_keys_is_told_where_it_goes(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path, schema=pa.schema([("id", pa.int64())]), record_key="id")
    with pytest.raises(InputError, match=r"a condition is where='id = 2'"):
        table.delete("id = 2")
    with pytest.raises(InputError, match=r"SQL text .* can"):
        table.to_arrow(filter=object())


def test_unknown_partitions_to_delete(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(row())
    with pytest.raises(InputError, match="p=nowhere"):
        table.delete_partitions(["p=x", "p=nowhere"])
    with pytest.raises(InputError):
        table.delete_partitions("p=x")
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_nothing_to_write_is_a_commit_without_files(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, table_type=kind)
    result = table.insert(SCHEMA.empty_table())
    assert (result.stats.files, result.stats.inserted) == (0, 0)
    table.upsert(row())
    assert table.upsert(SCHEMA.empty_table()).stats.files == 0
    assert table.delete(["nobody"]).stats.deleted == 0
    assert table.to_arrow()["id"].to_pylist() == ["a"]


def test_rows_that_were_read_can_be_written_back(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(row())
    read = table.to_arrow()
    assert "_hoodie_commit_time" in read.column_names
    result = table.upsert(read)
    assert table.to_arrow()["_hoodie_commit_time"].to_pylist() == [result.instant]


TIMED = "hoodie.keygen.timebased."
PAYLOAD = "hoodie.datasource.write.payload.class"
DELETE_FIELD, DELETE_MARKER = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"


def timestamp_options(kind: str) -> dict[str, str]:
    """A timestamp-based key generator, but for input patterns."""
    keys = {f"{TIMED}timestamp.type": kind, f"{TIMED}output.dateformat": "yyyy"}
    return {"hoodie.table.keygenerator.type": "TIMESTAMP", **keys}


BAD_TABLES: dict[str, dict[str, Any]] = {
    "no such key column": {"record_key": "nope"},
    "no key": {"record_key": []},
    "a key twice": {"record_key": ["id", "id"]},
    "no such partition column": {"partition_by": "nope"},
    "no such ordering column": {"ordering": "nope"},
    "an unknown type": {"table_type": "delta"},
    "a name with a slash": {"name": "a/b"},
    "an old version": {"options": {"hoodie.table.version": 6}},
    "a bad number": {"options": {"hoodie.parquet.max.file.size": "many"}},
    "a bad flag": {"options": {"hoodie.datasource.write.hive_style_partitioning": "maybe"}},
    "no meta fields": {"options": {"hoodie.populate.meta.fields": False}},
    "a custom merger": {"options": {"hoodie.record.merge.mode": "CUSTOM"}},
    "a simple key generator for two keys": {
        "record_key": ["id", "n"],
        "options": {"hoodie.table.keygenerator.type": "SIMPLE"},
    },
    "a timestamp key generator without formats": {
        "options": {"hoodie.table.keygenerator.type": "TIMESTAMP"}
    },
    "a number as the time of a text column": {"options": timestamp_options("EPOCHMILLISECONDS")},
    "a date pattern with unknown letters": {
        "options": timestamp_options("DATE_STRING") | {f"{TIMED}input.dateformat": "yyyy-QQ"}
    },
    "a delete column without a marker": {"options": {DELETE_FIELD: "id"}},
    "a delete marker without a column": {"options": {DELETE_MARKER: "D"}},
    "a delete column of floats": {
        "schema": SCHEMA.append(pa.field("real", pa.float64())),
        "options": {DELETE_FIELD: "real", DELETE_MARKER: "1"},
    },
    "a payload class of one's own": {"options": {PAYLOAD: "com.example.MyPayload"}},
    "a payload class against the merge mode": {
        "options": {
            PAYLOAD: "org.apache.hudi.common.model.AWSDmsAvroPayload",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        }
    },
    "partial updates": {"options": {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}},
    "an object as an option": {"options": {"hoodie.table.name": object()}},
}


@pytest.mark.parametrize("what", list(BAD_TABLES))
def test_bad_table_definitions_are_refused(tmp_path: Path, what: str) -> None:
    with pytest.raises((InputError, ConfigError)) as caught:
        make(tmp_path, **BAD_TABLES[what])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "options",
    [
        {DELETE_FIELD: "p", DELETE_MARKER: "E"},
        {DELETE_FIELD: "p"},
        {PAYLOAD: "org.apache.hudi.common.model.AWSDmsAvroPayload"},
        {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"},
    ],
)
def test_options_cannot_change_how_a_table_merges(tmp_path: Path, options: dict[str, str]) -> None:
    same = {DELETE_FIELD: "p", DELETE_MARKER: "D"}
    table = make(tmp_path, options=same)
    more = {PAYLOAD: "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    row = pa.table([["a"], ["x"], [1], [1]], schema=SCHEMA)
    hoodoo.open_table(table.uri, same | more).upsert(row)
    with pytest.raises(ConfigError):
        hoodoo.open_table(table.uri, options).upsert(row)
    assert hoodoo.open_table(table.uri).to_arrow().num_rows == 1


def test_a_schema_that_is_none(tmp_path: Path) -> None:
    for schema in (
        "{}",
        "not json",
        7,
        pa.schema([]),
        pa.schema([("a", pa.int8()), ("A", pa.int8())]),
    ):
        with pytest.raises(InputError):
            hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="a")


def test_existing_and_missing_tables(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(TableExists):
        make(tmp_path)
    with pytest.raises(NoSuchTable):
        hoodoo.open_table(str(tmp_path / "elsewhere"))


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ("files", "metadata table.* is not there"),
        ("files,secondary_index_x", "does not write yet .secondary_index_x"),
    ],
)
def test_a_table_whose_metadata_table_cannot_be_kept_is_not_written(
    tmp_path: Path, partitions: str, reason: str
) -> None:
    table = make(tmp_path, options={"hoodie.metadata.enable": False})
    table.insert(row())
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text() + f"\nhoodie.table.metadata.partitions={partitions}\n")
    table = hoodoo.open_table(str(tmp_path / "t"))
    for write in (table.insert, table.upsert, table.insert_overwrite, table.delete):
        with pytest.raises(UnsupportedFeature, match=reason):
            write(row())
    assert len(open_ref(table.uri).load_timeline()) == 1
