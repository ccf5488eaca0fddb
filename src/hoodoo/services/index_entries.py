"""The entries that a partition of the metadata table begins with: those of the table as it is."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hoodoo.engine.engine import Engine
from hoodoo.format.schema import with_meta_fields, without_meta_fields
from hoodoo.metadata.file_changes import file_changes
from hoodoo.metadata.file_facts import gather_facts
from hoodoo.metadata.log_writer import empty_entries
from hoodoo.metadata.recorder import NO_COLUMNS, load_indexed_columns
from hoodoo.metadata.table_changes import index_changes
from hoodoo.model.files import made_by
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    SOLO_TIME,
)
from hoodoo.model.paths import PartitionPath, join
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.snapshot import take_snapshot
from hoodoo.timeline.timeline import Timeline

Stored = Mapping[PartitionPath, Mapping[str, int]]
"""Data files of completed instants, with their sizes, by partition."""


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
