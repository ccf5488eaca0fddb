"""From what an action did to the entries it writes: beside what Apache Hudi wrote for the same."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.fixtures import FIXTURES
from support.metadata_tables import Piece, pieces_of, table_files, with_metadata
from support.zones import time_zone

from hoodoo.errors import InputError
from hoodoo.format.arrow_types import empty_table
from hoodoo.format.log import decode_data, read_blocks
from hoodoo.format.metadata_table.column_stats import (
    ValueType,
    column_type,
    decode_column_stats,
    encode_column_stats,
    indexed_columns,
)
from hoodoo.format.metadata_table.files import decode_file_lists, explode
from hoodoo.format.metadata_table.keys import (
    column_stats_keys,
    file_group_numbers,
    file_name_id,
    name_id,
    secondary_values,
)
from hoodoo.format.metadata_table.record_index import decode_record_index, encode_record_index
from hoodoo.format.parquet.base_file import footer_bytes
from hoodoo.format.parquet.statistics import column_ranges
from hoodoo.format.timeline.instant_files import decode
from hoodoo.metadata_table.entries.encode import split_by_file_group
from hoodoo.metadata_table.entries.merge import EntryBatch, merge_file_lists
from hoodoo.metadata_table.indexes.bloom_filters import FileFilter, bloom_filter_entries
from hoodoo.metadata_table.indexes.column_stats import (
    column_stats,
    column_stats_deletes,
    partition_stats,
    partition_stats_deletes,
)
from hoodoo.metadata_table.indexes.file_facts import ranges_of_rows
from hoodoo.metadata_table.indexes.files import (
    changes_of_clean,
    changes_of_commit,
    changes_of_restore,
    file_changes,
)
from hoodoo.metadata_table.indexes.record_index import record_index_changes
from hoodoo.model.commit import (
    CleanMetadata,
    CleanPartitionMetadata,
    ColumnRange,
    CommitMetadata,
    FileRanges,
    WriteStat,
)
from hoodoo.model.instant import Action, InstantTime, State, TimelineZone
from hoodoo.model.paths import PartitionPath
from hoodoo.runtime.env import SystemClock
from hoodoo.table.timeline import moment_of, time_of

META = [name for name in with_metadata() if name.endswith("_meta")]
P = PartitionPath


def listed(batch: EntryBatch) -> dict[str, dict[str, tuple[int, bool]]]:
    assert batch.entries is not None
    made: dict[str, dict[str, tuple[int, bool]]] = {
        key: {} for key in batch.entries["key"].to_pylist()
    }
    for row in explode(batch.entries).to_pylist():
        made[row["key"]][row["name"]] = (row["size_bytes"], row["is_deleted"])
    return made


def stored(table: str, path: str) -> bytes:
    with zipfile.ZipFile(FIXTURES / "tables" / f"{table}.zip") as archive:
        return archive.read(f"{table.split('/')[1]}/{path}")


# -- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", META)
def test_commits_add_what_apache_hudi_added(table: str) -> None:
    blocks: dict[str, list[Piece]] = {}
    for piece in pieces_of(table):
        if piece.partition == "files" and not piece.is_base and len(piece.keys):
            blocks.setdefault(piece.instant_time, []).append(piece)
    compared = 0
    for path in table_files(table):
        folder, _, name = path.rpartition("/")
        kind = name.rpartition(".")[2]
        if folder != ".hoodie/timeline" or kind not in ("commit", "deltacommit", "replacecommit"):
            continue
        action = Action(kind)
        metadata = decode(stored(table, path), action, State.COMPLETED)
        assert isinstance(metadata, CommitMetadata)
        for piece in blocks.pop(name[:17], []):
            theirs = EntryBatch(decode_file_lists(piece.keys, piece.values))
            assert listed(changes_of_commit(metadata)) == listed(theirs)
            compared += 1
    assert compared > 5


def test_a_commit_lists_its_partitions_and_files() -> None:
    stats = (
        WriteStat(path="p/f1", file_size_in_bytes=5),
        WriteStat(path="p/f1", file_size_in_bytes=7),
        WriteStat(path="p/.f2.log", file_size_in_bytes=3, cdc_stats={"p/.f2.cdc": 2}),
        WriteStat(path=None),
    )
    commit = CommitMetadata(partition_to_write_stats={P("p"): stats, P(""): ()})
    assert listed(changes_of_commit(commit)) == {
        "__all_partitions__": {"p": (0, False), ".": (0, False)},
        ".": {},
        "p": {"f1": (7, False), ".f2.log": (3, False), ".f2.cdc": (2, False)},
    }
    assert listed(changes_of_commit(CommitMetadata())) == {"__all_partitions__": {}}


def test_a_file_without_bytes_is_refused() -> None:
    with pytest.raises(InputError, match="f1"):
        file_changes({P("p"): {"f1": 0}})


def test_a_clean_deletes_files_and_partitions() -> None:
    parts = {
        P("p"): CleanPartitionMetadata(
            partition_path=P("p"), policy="x", delete_path_patterns=("a", "b"),
            success_delete_files=("p/a",),
        ),
        P("q"): CleanPartitionMetadata(
            partition_path=P("q"), policy="x", delete_path_patterns=("c",),
            is_partition_deleted=True,
        ),
    }  # fmt: skip
    clean = CleanMetadata(
        start_clean_time="1", time_taken_in_millis=1, total_files_deleted=3,
        earliest_commit_to_retain="", partition_metadata=parts,
    )  # fmt: skip
    batch = changes_of_clean(clean)
    assert listed(batch) == {
        "__all_partitions__": {"q": (0, True)},
        "p": {"a": (0, True), "b": (0, True)},
    }
    assert batch.deleted_keys is not None
    assert batch.deleted_keys.to_pylist() == ["q"]
    before = file_changes({P("p"): {"a": 1, "d": 2}, P("q"): {"c": 3}})
    assert listed(EntryBatch(merge_file_lists([before, batch]))) == {
        "__all_partitions__": {"p": (0, False)},
        "p": {"b": (0, True), "d": (2, False)},
    }


def test_a_restore_makes_the_listing_what_storage_has() -> None:
    before = {P("p"): {"a": 1, "b": 2}, P("q"): {"c": 3}}
    after = {P("p"): {"b": 9, "d": 4}, P("r"): {"e": 5}}
    merged = merge_file_lists([file_changes(before), changes_of_restore(before, after)])
    assert listed(EntryBatch(merged)) == {
        "__all_partitions__": {"p": (0, False), "r": (0, False)},
        "p": {"b": (9, False), "d": (4, False)},
        "r": {"e": (5, False)},
    }


# -- statistics -------------------------------------------------------------------------------


def footers(table: str) -> list[tuple[FileRanges, pa.Schema]]:
    found = []
    for path in table_files(table):
        partition, _, name = path.rpartition("/")
        if path.endswith(".parquet") and not path.startswith(".hoodie"):
            data = stored(table, path)
            schema = pq.read_schema(io.BytesIO(data))
            ranges = column_ranges(footer_bytes(pa.BufferReader(data)), schema)
            found.append(
                (FileRanges(partition=P(partition), file_name=name, ranges=ranges), schema)
            )
    return found


def statistics(table: str, partition: str) -> dict[str, bytes]:
    """By key, the value as its log block has it, the oldest one."""
    values: dict[str, bytes] = {}
    for piece in sorted(pieces_of(table), key=lambda piece: piece.instant_time):
        if piece.partition == partition and not piece.is_base:
            for key, value in zip(piece.keys.to_pylist(), piece.values.to_pylist(), strict=True):
                values.setdefault(key.decode(), value)
    return values


@pytest.mark.parametrize("table", META)
def test_statistics_of_footers_are_those_of_apache_hudi_byte_for_byte(table: str) -> None:
    theirs = statistics(table, "column_stats")
    compared = 0
    for ranges, schema in footers(table):
        rows = column_stats([ranges], indexed_columns(schema), schema)
        values = encode_column_stats(rows).to_pylist()
        for key, value in zip(rows["key"].to_pylist(), values, strict=True):
            assert theirs[key] == value
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("table", [name for name in META if "nonpart" not in name])
def test_partition_statistics_are_those_of_apache_hudi(table: str) -> None:
    theirs = statistics(table, "partition_stats")
    files = footers(table)
    first = min(ranges.file_name.rpartition("_")[2] for ranges, _ in files)
    begun = [(ranges, schema) for ranges, schema in files if ranges.file_name.endswith(first)]
    schema = begun[0][1]
    rows = partition_stats(
        [ranges for ranges, _ in begun], indexed_columns(schema), schema, is_tight=True
    )
    assert rows.num_rows
    values = encode_column_stats(rows).to_pylist()
    assert dict(zip(rows["key"].to_pylist(), values, strict=True)).items() <= theirs.items()


def range_of(column: str, low: object, high: object, **counts: int) -> ColumnRange:
    numbers = {"null_count": 0, "value_count": 2} | counts
    return ColumnRange(column=column, min_value=low, max_value=high, **numbers)


VALUES: list[tuple[pa.DataType, Any, ValueType, Any]] = [
    (pa.bool_(), True, ValueType.BOOLEAN, True),
    (pa.int32(), -4, ValueType.INT, -4),
    (pa.int64(), 2**40, ValueType.LONG, 2**40),
    (pa.float32(), 1.5, ValueType.FLOAT, 1.5),
    (pa.float64(), 1.5, ValueType.DOUBLE, 1.5),
    (pa.string(), "é", ValueType.STRING, "é"),
    (pa.date32(), date(2024, 1, 15), ValueType.DATE, 19737),
    (pa.time32("ms"), time(0, 0, 1), ValueType.TIME_MILLIS, 1000),
    (pa.time64("us"), time(0, 0, 1), ValueType.TIME_MICROS, 1_000_000),
    (pa.timestamp("ms", "UTC"), datetime(1970, 1, 2, tzinfo=UTC), ValueType.TIMESTAMP_MILLIS,
     86_400_000),
    (pa.timestamp("us", "UTC"), datetime(1970, 1, 2, tzinfo=UTC), ValueType.TIMESTAMP_MICROS,
     86_400_000_000),
    (pa.timestamp("us"), datetime(1970, 1, 2), ValueType.LOCAL_TIMESTAMP_MICROS, 86_400_000_000),
    (pa.decimal128(15, 2), Decimal("-1.28"), ValueType.DECIMAL, b"\x80"),
    (pa.decimal128(15, 2), Decimal("1.28"), ValueType.DECIMAL, b"\x00\x80"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "value_type", "inside"), VALUES, ids=str)
def test_bounds_are_written_as_their_type_wants(kind, value, value_type, inside) -> None:
    schema = pa.schema([("c", kind)])
    file = FileRanges(partition=P(""), file_name="f", ranges=(range_of("c", value, value),))
    rows = column_stats([file], indexed_columns(schema), schema)
    (row,) = decode_column_stats(rows["key"], encode_column_stats(rows)).to_pylist()
    assert row["key"] == name_id("c") + name_id(".") + file_name_id("f")
    assert row["value_type"] == value_type
    assert row["min_value"] == row["max_value"] == {"value": inside}
    assert row["value_type_info"] == ("15,2" if value_type is ValueType.DECIMAL else None)


def test_unknown_bounds_have_no_type_and_honest_counts() -> None:
    schema = pa.schema([("c", pa.float64())])
    for low, high in ((None, None), (float("nan"), 1.0), (1.0, None)):
        file = FileRanges(partition=P("p"), file_name="f", ranges=(range_of("c", low, high),))
        (row,) = column_stats([file], indexed_columns(schema), schema).to_pylist()
        assert (row["min_value"], row["max_value"], row["value_type"]) == (None, None, 1)
        assert (row["value_count"], row["null_count"]) == (2, 0)


def test_one_file_with_unknown_bounds_hides_those_of_its_partition() -> None:
    schema = pa.schema([("c", pa.int32()), ("d", pa.int32())])
    known = (range_of("c", 1, 2), range_of("d", 1, 2))
    nulls = (range_of("c", None, None, null_count=2), range_of("d", None, None))
    files = [
        FileRanges(partition=P("p"), file_name=name, ranges=ranges)
        for name, ranges in (("f", known), ("g", nulls))
    ]
    rows = partition_stats(files, indexed_columns(schema), schema, is_tight=False).to_pylist()
    by_column = {row["column_name"]: row for row in rows}
    assert by_column["c"]["min_value"] == {"value": 1}
    assert by_column["c"]["value_type"] == ValueType.INT
    assert (by_column["d"]["min_value"], by_column["d"]["value_type"]) == (None, ValueType.INT)
    assert {row["file_name"] for row in rows} == {"p"}
    assert [row["value_count"] for row in rows] == [4, 4]


def test_the_first_columns_that_have_an_order_are_indexed() -> None:
    fields = [("_hoodie_commit_time", pa.string()), ("_hoodie_commit_seqno", pa.string()),
              ("_hoodie_record_key", pa.string()), ("list", pa.list_(pa.int32())),
              ("blob", pa.binary()), ("wide", pa.decimal128(38, 2)),
              *((f"c{number}", pa.int32()) for number in range(40))]  # fmt: skip
    schema = pa.schema(fields)
    chosen = list(indexed_columns(schema))
    assert chosen[:3] == ["_hoodie_commit_time", "_hoodie_record_key", "c0"]
    assert len(chosen) == 2 + 32
    assert list(indexed_columns(schema, configured=("c39", "blob"))) == [*chosen[:2], "c39"]
    assert column_type(pa.struct([("a", pa.int32())])) is None


def test_ranges_of_rows_count_nulls_and_leave_nan_out() -> None:
    nan = float("nan")
    rows = pa.table(
        {"a": [3, None, 1], "b": [1.0, nan, 2.0], "c": [nan, nan, None], "d": pa.nulls(3)}
    )
    schema = rows.select(["a", "b", "c"]).schema
    assert ranges_of_rows(rows, schema) == [
        range_of("a", 1, 3, null_count=1, value_count=3),
        range_of("b", 1.0, 2.0, value_count=3),
        range_of("c", None, None, null_count=1, value_count=3),
    ]


def test_keys_of_cleaned_files_are_those_that_were_written() -> None:
    keys = column_stats_deletes({P("p"): ["f", "g"]}, ["a", "b"])
    expected = column_stats_keys(
        columns=pa.array(["a", "a", "b", "b"]),
        partitions=pa.array(["p"] * 4),
        file_names=pa.array(["f", "g", "f", "g"]),
    )
    assert keys.to_pylist() == expected.to_pylist()
    assert partition_stats_deletes([P("p")], ["a"]).to_pylist() == [name_id("a") + name_id("p")]
    assert len(column_stats_deletes({}, ["a"])) == len(partition_stats_deletes([], [])) == 0


# -- indexes by key ---------------------------------------------------------------------------


def test_a_record_that_is_written_and_deleted_is_written() -> None:
    batch = record_index_changes(
        keys=pa.array(["b", "a", "b"]),
        partitions=pa.array(["p", "p", "q"]),
        file_ids=pa.array(["f", "f", "g"]),
        instant_ms=5,
        deleted_keys=pa.array(["c", "b", "c"]),
    )
    assert batch.entries is not None
    assert batch.deleted_keys is not None
    rows = batch.entries.select(["key", "partition", "file_id", "instant_ms"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", "p", "f", 5), ("b", "q", "g", 5)]
    assert batch.deleted_keys.to_pylist() == ["c"]


def test_bloom_filters_are_written_with_their_instant() -> None:
    table = bloom_filter_entries(
        [FileFilter(P("p"), "f", "DYNAMIC_V0", "AAAA")], instant_time=InstantTime("7")
    )
    (row,) = table.to_pylist()
    key = name_id("p") + file_name_id("f")
    assert list(row.values()) == [key, "DYNAMIC_V0", "7", b"AAAA", False]


def test_entries_go_to_their_file_groups_sorted() -> None:
    keys = pa.array([f"k{number}" for number in reversed(range(100))])
    batch = record_index_changes(
        keys=keys, partitions=pa.repeat("p", 100), file_ids=pa.repeat("f", 100), instant_ms=1,
        deleted_keys=pa.array(["z1", "z0"]),
    )  # fmt: skip
    parts = split_by_file_group("record_index", batch, 7)
    seen = []
    for number, part in parts.items():
        assert part.entries is not None
        assert part.deleted_keys is not None
        own = [*part.entries["key"].to_pylist(), *part.deleted_keys.to_pylist()]
        assert file_group_numbers(pa.array(own), 7).tolist() == [number] * len(own)
        assert part.entries["key"].to_pylist() == sorted(part.entries["key"].to_pylist())
        seen += own
    assert sorted(seen) == sorted([*keys.to_pylist(), "z0", "z1"])


def test_entries_of_one_secondary_value_stay_together() -> None:
    keys = pa.array([f"v$k{number}" for number in range(50)])
    (part,) = split_by_file_group("secondary_index_x", EntryBatch(None, keys), 10).values()
    assert part.entries is None
    assert len(part.deleted_keys) == 50
    assert secondary_values(keys).unique().to_pylist() == ["v$"]


# -- what logs add, and the record index, beside Apache Hudi --------------------------------------


@pytest.mark.parametrize("table", [name for name in META if name.startswith("mor")])
def test_statistics_of_log_files_are_those_of_apache_hudi(table: str) -> None:
    theirs = statistics(table, "column_stats")
    schema = footers(table)[0][1]
    columns = indexed_columns(schema)
    compared = 0
    for path in table_files(table):
        partition, _, name = path.rpartition("/")
        if path.startswith(".hoodie") or ".log." not in name:
            continue
        blocks = [block for block in read_blocks(stored(table, path)).blocks if block.type.is_data]
        if blocks:
            rows = pa.concat_tables([decode_data(block) for block in blocks])
            columns, schema = indexed_columns(rows.schema), rows.schema
        else:
            rows = empty_table(schema)  # a log of deletes
        ranges = ranges_of_rows(rows, rows.select(columns).schema)
        file = FileRanges(partition=P(partition), file_name=name, ranges=tuple(ranges))
        entries = column_stats([file], columns, schema)
        values = encode_column_stats(entries).to_pylist()
        for key, value in zip(entries["key"].to_pylist(), values, strict=True):
            assert theirs[key] == value
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("table", META)
def test_locations_are_written_as_apache_hudi_wrote_them(table: str) -> None:
    clock = SystemClock()
    compared = 0
    with time_zone("America/Chicago"):  # where the fixtures were written
        for piece in pieces_of(table):
            if piece.partition != "record_index" or piece.is_base or not len(piece.keys):
                continue
            rows = decode_record_index(piece.keys, piece.values)
            ours = record_index_changes(
                keys=rows["key"],
                partitions=rows["partition"],
                file_ids=rows["file_id"],
                instant_ms=moment_of(clock, TimelineZone.LOCAL, InstantTime(piece.instant_time)),
            )
            values = encode_record_index(ours.entries).to_pylist()
            assert values == piece.values.to_pylist()
            compared += len(values)
    assert compared


def test_instants_and_moments_translate_by_the_zone() -> None:
    clock, time = SystemClock(), InstantTime("20260307162557587")
    with time_zone("America/Chicago"):
        assert moment_of(clock, TimelineZone.LOCAL, time) == 1772922357587
        assert time_of(clock, TimelineZone.LOCAL, 1772922357587) == time
        assert time_of(clock, TimelineZone.UTC, 1772922357587) == "20260307222557587"
