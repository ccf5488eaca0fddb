"""The entries that a partition of the metadata table begins with: those of the table as it is.

`make_entries` computes them from the table's files and writes nothing. `define_index` writes the
definition of an index, with its columns, to the file in which all writers look.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.key import Config
from hoodoo.config.metadata_table import RECORD_INDEX_MAX_GROUPS, RECORD_INDEX_MIN_GROUPS
from hoodoo.errors import InputError, ObjectNotFound, add_error_source
from hoodoo.format.json_files import define_column_stats, define_record_index
from hoodoo.format.metadata_table.column_stats import indexed_columns
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.format.schema import COMMIT_TIME, RECORD_KEY, with_meta_fields, without_meta_fields
from hoodoo.metadata_table.changes import index_changes
from hoodoo.metadata_table.entries.encode import empty_entries
from hoodoo.metadata_table.entries.merge import EntryBatch, merge_newest
from hoodoo.metadata_table.indexes.file_facts import read_file_statistics
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.metadata_table.recorder import NO_COLUMNS, load_indexed_columns
from hoodoo.model.files import instant_of_file
from hoodoo.model.instant import InstantTime, TimelineZone
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    DEFINITIONS_PATH_KEY,
    FILE_GROUPS,
    FILES,
    INDEX_DEFINITIONS,
    PARTITION_STATS,
    RECORD_INDEX,
    SOLO_TIME,
    estimate_file_groups,
)
from hoodoo.model.paths import PartitionPath, join
from hoodoo.read.base_files import SliceReadTask, build_read_rule
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.read.scan import read_slice, slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.timeline import Timeline, moment_of

log = logging.getLogger("hoodoo.services")


# -- entries of each partition ------------------------------------------------------------------


FilesByPartition = Mapping[PartitionPath, Mapping[str, int]]
"""Data files of completed instants, with their sizes, by partition."""

_KEY_ROWS_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "partition", "file_id", "time")]
)


def list_stored(
    ref: TableRef, timeline: Timeline, *, start: InstantTime | None = None
) -> dict[PartitionPath, dict[str, int]]:
    """The data files of completed instants, as directories have them.

    `start` is that of the whole active timeline, if this is a part of it.
    """
    visibility = timeline.visibility(start=start or timeline.oldest_active_write)
    sizes_by_partition: dict[PartitionPath, dict[str, int]] = {}
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        if visibility.sees(instant_of_file(file)):
            sizes_by_partition.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
    return sizes_by_partition


def make_entries(
    ref: TableRef,
    engine: Engine,
    timeline: Timeline,
    partition: str,
    stored_files: FilesByPartition,
) -> pa.Table:
    """All entries of a partition, by what the table has on this timeline.

    `stored_files` are the table's files. Nothing is written.
    """
    if partition == FILES:
        entries = file_changes(stored_files).entries
        assert entries is not None
        return entries
    if partition == RECORD_INDEX:
        return _make_record_index(ref, engine, timeline)
    columns = NO_COLUMNS
    if partition in (COLUMN_STATS, PARTITION_STATS):
        columns = load_indexed_columns(
            ref.env, ref.config, ref.properties, load_schema(ref, timeline)
        )
    files = [(part, join(part, name)) for part, names in stored_files.items() for name in names]
    facts = read_file_statistics(
        ref.env, engine, files, columns.schema, wants_filters=partition == BLOOM_FILTERS
    )
    time = timeline.latest_commit.requested_time if timeline.latest_commit else SOLO_TIME
    changes = index_changes([partition], InstantTime(time), facts, columns)
    entries = changes[partition].entries if partition in changes else None
    return entries if entries is not None else empty_entries(partition)


def load_schema(ref: TableRef, timeline: Timeline) -> pa.Schema:
    """The table's schema, with meta fields."""
    schema = resolve_schema(ref, timeline)
    if schema is None:
        schema = take_snapshot(ref).schema
    return with_meta_fields(without_meta_fields(schema))


def choose_file_groups(config: Config, partition: str, entries: int) -> int:
    """How many file groups a new partition of so many entries gets."""
    if partition != RECORD_INDEX:
        return FILE_GROUPS[partition]
    fewest, most = config.get(RECORD_INDEX_MIN_GROUPS), config.get(RECORD_INDEX_MAX_GROUPS)
    return estimate_file_groups(entries, at_least=min(fewest, most), at_most=most)


# -- record index -------------------------------------------------------------------------------


def _make_record_index(ref: TableRef, engine: Engine, timeline: Timeline) -> pa.Table:
    """Where each key of the table is, with the moment of its row's commit."""
    snapshot = take_snapshot(ref, timeline=timeline)
    schema = with_meta_fields(without_meta_fields(snapshot.schema))
    rule = build_read_rule(ref.properties, schema, (COMMIT_TIME, RECORD_KEY))
    tables = engine.map(read_locations, slice_reads(snapshot, rule, snapshot.slices()))
    key_rows = pa.concat_tables([*tables, _KEY_ROWS_SCHEMA.empty_table()]).combine_chunks()
    times = pc.unique(key_rows["time"].combine_chunks())
    zone = ref.properties.timeline_zone
    moments = pa.array([_moment(ref, zone, time) for time in times.to_pylist()], pa.int64())
    instants = moments.take(pc.index_in(key_rows["time"].combine_chunks(), value_set=times))
    columns = [*(key_rows[name] for name in ("key", "partition", "file_id")), instants]
    locations = pa.table([*columns, pa.nulls(key_rows.num_rows, pa.int64())], LOCATIONS)
    entries = merge_newest([EntryBatch(locations)])
    twice = key_rows.num_rows - entries.num_rows
    if twice:
        log.warning(
            "keys_not_unique table=%s rows=%d: a record index knows one row of each key",
            ref.uri,
            twice,
        )
    return entries


def read_locations(read: SliceReadTask) -> pa.Table:
    """The live keys of a slice, where they are, and which commit wrote their row; on an engine."""
    rows = read_slice(read)
    group, count = read.slice.group, rows.num_rows
    places = (pa.repeat(pa.scalar(text), count) for text in (group.partition, group.file_id))
    columns = [rows.column(RECORD_KEY), *places, rows.column(COMMIT_TIME)]
    return pa.table([column.cast(pa.string()) for column in columns], schema=_KEY_ROWS_SCHEMA)


def _moment(ref: TableRef, zone: TimelineZone, time: str | None) -> int:
    """The moment of a row's commit; some engines note other texts there."""
    try:
        return moment_of(ref.env.clock, zone, InstantTime(time or ""))
    except InputError:
        return 0


# -- definitions of indexes ---------------------------------------------------------------------


def define_index(
    ref: TableRef, timeline: Timeline, partition: str, columns: Sequence[str] | None = None
) -> str | None:
    """Say what an index is about, for whoever writes it later; where that is said, if it is.

    `columns` are those that get statistics, if they are named.
    """
    if partition not in (COLUMN_STATS, RECORD_INDEX):
        return None
    env, path = ref.env, ref.properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    data: bytes | None = None
    with suppress(ObjectNotFound):
        data = env.storage.read(path)
    with add_error_source(path):
        if partition == RECORD_INDEX:
            definitions = define_record_index(data)
        else:
            schema = load_schema(ref, timeline)
            types = _choose_columns(ref, schema, columns)
            definitions = define_column_stats(data, tuple(types))
        env.storage.put(path, definitions)
    return path


def _choose_columns(
    ref: TableRef, schema: pa.Schema, columns: Sequence[str] | None
) -> Collection[str]:
    if columns is None:
        return load_indexed_columns(ref.env, ref.config, ref.properties, schema).types
    types = indexed_columns(schema, configured=tuple(columns))
    if unfit := [name for name in columns if name not in types]:
        raise InputError(f"no statistics of {', '.join(unfit)}: no such column, or of no such type")
    return types
