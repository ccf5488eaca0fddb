"""The entries that a partition of the metadata table begins with: those of the table as it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.metadata import RECORD_INDEX_MAX_GROUPS, RECORD_INDEX_MIN_GROUPS
from hoodoo.config.resolve import Config
from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.format.metadata.record_index import LOCATIONS
from hoodoo.format.schema import COMMIT_TIME, RECORD_KEY, with_meta_fields, without_meta_fields
from hoodoo.metadata.file_changes import file_changes
from hoodoo.metadata.file_facts import gather_facts
from hoodoo.metadata.log_writer import empty_entries
from hoodoo.metadata.merge import Batch, merge_newest
from hoodoo.metadata.recorder import NO_COLUMNS, load_indexed_columns
from hoodoo.metadata.table_changes import index_changes
from hoodoo.model.files import made_by
from hoodoo.model.instant import InstantTime, TimelineZone
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILE_GROUPS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SOLO_TIME,
    estimate_file_groups,
)
from hoodoo.model.paths import PartitionPath, join
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.read import read_slice, slice_reads
from hoodoo.table.read_rule import SliceRead, build_read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.snapshot import take_snapshot
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import moment_of

log = logging.getLogger("hoodoo.services")

Stored = Mapping[PartitionPath, Mapping[str, int]]
"""Data files of completed instants, with their sizes, by partition."""

_FOUND = pa.schema([(name, pa.string()) for name in ("key", "partition", "file_id", "time")])


def list_stored(ref: TableRef, timeline: Timeline) -> dict[PartitionPath, dict[str, int]]:
    """The data files of completed instants, as directories have them."""
    visibility = timeline.visibility(start=timeline.start)
    stored: dict[PartitionPath, dict[str, int]] = {}
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        if visibility.sees(made_by(file)):
            stored.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
    return stored


def make_entries(
    ref: TableRef, engine: Engine, timeline: Timeline, partition: str, stored: Stored
) -> pa.Table:
    """All entries of a partition, by what the table has on this timeline; `stored` are its files.

    Nothing is written.
    """
    if partition == FILES:
        entries = file_changes(stored).entries
        assert entries is not None
        return entries
    if partition == RECORD_INDEX:
        return _make_record_index(ref, engine, timeline)
    columns = NO_COLUMNS
    if partition in (COLUMN_STATS, PARTITION_STATS):
        columns = load_indexed_columns(
            ref.env, ref.config, ref.properties, load_schema(ref, timeline)
        )
    files = [(part, join(part, name)) for part, names in stored.items() for name in names]
    facts = gather_facts(
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
    found = pa.concat_tables([*tables, _FOUND.empty_table()]).combine_chunks()
    times = pc.unique(found["time"].combine_chunks())
    zone = ref.properties.timeline_zone
    moments = pa.array([_moment(ref, zone, time) for time in times.to_pylist()], pa.int64())
    instants = moments.take(pc.index_in(found["time"].combine_chunks(), value_set=times))
    columns = [*(found[name] for name in ("key", "partition", "file_id")), instants]
    located = pa.table([*columns, pa.nulls(found.num_rows, pa.int64())], LOCATIONS)
    entries = merge_newest([Batch(located)])
    twice = found.num_rows - entries.num_rows
    if twice:
        log.warning(
            "keys_not_unique table=%s rows=%d: a record index knows one row of each key",
            ref.uri,
            twice,
        )
    return entries


def read_locations(read: SliceRead) -> pa.Table:
    """The live keys of a slice, where they are, and which commit wrote their row; on an engine."""
    rows = read_slice(read)
    group, count = read.slice.group, rows.num_rows
    places = (pa.repeat(pa.scalar(text), count) for text in (group.partition, group.file_id))
    columns = [rows.column(RECORD_KEY), *places, rows.column(COMMIT_TIME)]
    return pa.table([column.cast(pa.string()) for column in columns], schema=_FOUND)


def _moment(ref: TableRef, zone: TimelineZone, time: str | None) -> int:
    """The moment of a row's commit; some engines note other texts there."""
    try:
        return moment_of(ref.env.clock, zone, InstantTime(time or ""))
    except InputError:
        return 0
