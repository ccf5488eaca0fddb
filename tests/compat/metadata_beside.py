"""What a metadata table says, held against the table itself: for tables that two engines write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from compat.peer_client import Peer
from support.record_indexed import scan

from hoodoo.api.table import Table
from hoodoo.config.key import Config
from hoodoo.format.schema import RECORD_KEY, with_meta_fields
from hoodoo.metadata_table.entries.encode import encode_base, encode_log
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.entries.rules import rule_of
from hoodoo.metadata_table.indexes.column_stats import column_stats
from hoodoo.metadata_table.indexes.file_facts import read_file_statistics
from hoodoo.metadata_table.indexes.files import MetadataLister, file_changes
from hoodoo.metadata_table.recorder import load_indexed_columns
from hoodoo.metadata_table.table import MetadataTable, open_metadata_table
from hoodoo.model.commit import ColumnRange, FileRanges
from hoodoo.model.files import BaseFile, LogFile
from hoodoo.model.metadata_table import COLUMN_STATS, FILES, RECORD_INDEX
from hoodoo.model.names import LogFileName
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.simulator.checks.metadata_table import check_current_files


def open_metadata(place: Path) -> MetadataTable:
    """The metadata table of a table, as it is now."""
    ref = open_ref(str(place))
    return open_metadata_table(ref.env, ref.load_timeline())


@contextmanager
def hiding_group_of(place: Path, key: str) -> Iterator[tuple[Path, set[str]]]:
    """A copy of the table whose metadata table denies the file group of a key; the keys in it."""
    located = scan(open_ref(str(place)))
    partition, file_id = located[key]
    copy = Path(shutil.copytree(place, place.with_name(f"{place.name}-hidden")))
    try:
        files = (copy / partition).iterdir()
        hide(copy, partition, [file.name for file in files if file_id in file.name])
        yield copy, {key for key, group in located.items() if group == (partition, file_id)}
    finally:
        shutil.rmtree(copy)


def hide(place: Path, partition: str, names: list[str]) -> None:
    """Let the listing say that these files are gone, beside the newest thing that it says."""
    table = open_metadata(place)
    files = table.load_partition(FILES)
    (one,) = files.slices
    change = file_changes({}, {PartitionPath(partition): names}, lists_partitions=False)
    if one.logs:
        newest = one.logs[-1].name
        name = LogFileName(newest.file_id, newest.instant_time, newest.version + 1, newest.token)
        data = encode_log(FILES, change, instant_time=newest.instant_time, created_ms=0)
        (place / join(METADATA_TABLE, FILES, str(name))).write_bytes(data)
        return
    assert one.base is not None
    entries = rule_of(FILES).merge([EntryBatch(read_entries(table, files)), change])
    data = encode_base(FILES, entries, created_ms=0, name=str(one.base.name))
    (place / one.base.path).write_bytes(data)


def assert_no_complaints(hudi: Peer, place: Path) -> None:
    """Hudi's own procedures find in the metadata table what is stored, and nothing else."""
    hudi.sql(
        "drop table if exists listed", f"create table listed using hudi location '{place.as_uri()}'"
    )
    assert _call(hudi, "validate_metadata_table_files") == []
    told = _call(hudi, "validate_metadata_table_files", verbose="true")
    assert told, "nothing is listed"
    assert all(row["fs_size"] == row["metadata_size"] for row in told), told
    named = {row["partition"] for row in _call(hudi, "show_metadata_table_partitions")}
    assert named >= {row["partition"] for row in told}
    one = told[0]["partition"]
    files = _call(hudi, "show_metadata_table_files", partition=f"'{one}'")
    assert {row["file_path"] for row in files} == {
        row["file_name"] for row in told if row["partition"] == one
    }


def _call(hudi: Peer, procedure: str, **arguments: str) -> list[dict[str, Any]]:
    given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    told = hudi.sql(f"call {procedure}(table => 'listed'{', ' * bool(given)}{given})", rows=True)
    assert isinstance(told, pa.Table)
    rows: list[dict[str, Any]] = told.to_pylist()
    return rows


def assert_indexes_are_current(place: Path) -> None:
    """Every index of the metadata table says what a scan of the data files says."""
    ref = open_ref(str(place))
    check_current_files(ref.env.storage)
    assert not ref.properties.metadata_partitions_inflight
    for partition in ref.properties.metadata_partitions:
        if partition == COLUMN_STATS:
            _compare_column_stats(ref)
        elif partition == RECORD_INDEX:
            _compare_record_index(ref)


def _compare_record_index(ref: TableRef) -> None:
    rows = Table(ref).to_arrow(columns=[RECORD_KEY])
    located = scan(ref)
    assert rows.num_rows == len(located), "a key is there twice"
    entries = _entries(ref, RECORD_INDEX).select(["key", "partition", "file_id"])
    found = {row["key"]: (row["partition"], row["file_id"]) for row in entries.to_pylist()}
    assert len(found) == entries.num_rows
    differ = {key for key in {**found, **located} if found.get(key) != located.get(key)}
    assert not differ, {key: (found.get(key), located.get(key)) for key in differ}


def _compare_column_stats(ref: TableRef) -> None:
    """For all files that are listed, those of older slices too."""
    table = open_metadata_table(ref.env, ref.load_timeline())
    is_partitioned = ref.properties.keys.is_partitioned
    listed = MetadataLister(table, is_partitioned=is_partitioned).files()
    columns = load_indexed_columns(
        ref.env, Config(), ref.properties, with_meta_fields(Table(ref).schema)
    )
    bases = [file for file in listed if isinstance(file, BaseFile)]
    logs = [(file.partition, file.path) for file in listed if isinstance(file, LogFile)]
    facts = read_file_statistics(ref.env, LocalEngine(1), logs, columns.schema, wants_filters=False)
    ranges = [*facts.ranges, *(_ranges_of(ref, file, columns.schema) for file in bases)]
    expected = _bounds(column_stats(ranges, columns.types, columns.schema))
    found = _bounds(_entries(ref, COLUMN_STATS))
    differ = {key for key in {**found, **expected} if found.get(key) != expected.get(key)}
    assert not differ, [f"{found.get(key)} against {expected.get(key)}" for key in differ]


def _ranges_of(ref: TableRef, file: BaseFile, schema: pa.Schema) -> FileRanges:
    """The bounds of a base file's columns, from its rows."""
    rows = pq.read_table(f"{ref.uri}/{file.path}", partitioning=None)
    ranges = []
    for name in schema.names:
        bounds = pc.min_max(rows[name]).as_py()
        ranges.append(
            ColumnRange(
                column=name,
                min_value=bounds["min"],
                max_value=bounds["max"],
                null_count=rows[name].null_count,
                value_count=rows.num_rows,
            )
        )
    return FileRanges(partition=file.partition, file_name=str(file.name), ranges=tuple(ranges))


def _bounds(entries: pa.Table) -> dict[str, tuple[Any, ...]]:
    """What is known of files that have rows; of others Hudi writes nothing."""
    live = entries.filter(pc.invert(entries["is_deleted"]))
    live = live.filter(pc.greater(live["value_count"], 0))
    names = ["min_value", "max_value", "value_count", "null_count"]
    columns = zip(*(live[name].to_pylist() for name in names), strict=True)
    return dict(zip(live["key"].to_pylist(), columns, strict=True))


def _entries(ref: TableRef, partition: str) -> pa.Table:
    table = open_metadata_table(ref.env, ref.load_timeline())
    return read_entries(table, table.load_partition(partition))
