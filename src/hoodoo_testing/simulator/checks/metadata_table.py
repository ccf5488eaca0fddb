"""What must hold of a metadata table: at every moment, and once the dead are rolled back.

Readers that fall back to directories would hide a fault, so here nothing falls back.
"""

from __future__ import annotations

from collections.abc import Iterable

from hoodoo.config.key import Config
from hoodoo.errors import HoodooError
from hoodoo.format.schema import RECORD_KEY, arrow_from_avro, with_meta_fields
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.indexes.file_facts import read_file_statistics
from hoodoo.metadata_table.indexes.files import MetadataLister
from hoodoo.metadata_table.recorder import load_indexed_columns
from hoodoo.metadata_table.table import (
    MetadataTable,
    find_last_compaction,
    has_metadata_table,
    open_metadata_table,
)
from hoodoo.model.files import DataFile, FileGroup
from hoodoo.model.instant import Action, Instant
from hoodoo.model.metadata_table import COLUMN_STATS, RECORD_INDEX, SOLO_TIME
from hoodoo.model.paths import METADATA_TABLE, PROPERTIES, PartitionPath
from hoodoo.read.file_listing import (
    DirectoryLister,
    find_replaced,
    group_files,
    open_current_metadata_table,
)
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env, SystemClock, SystemIds
from hoodoo.storage.storage import Storage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.simulator.checks.truth import TIMELINE, data_file_time, parse_timeline_name
from hoodoo_testing.simulator.world.faults import StorageOperation
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import World


class MetadataGuard:
    """After each mutation that readers could see: both listings have the same current files."""

    def __init__(self, world: World) -> None:
        self._store = world.storage

    def __call__(self, operation: StorageOperation) -> None:
        """Compare what readers see, if that may have changed."""
        path = operation.path
        directory, _, name = path.rpartition("/")
        if operation.verb == "delete":
            is_seen = directory.startswith((METADATA_TABLE, TIMELINE.active))
        else:
            instant = parse_timeline_name(name, layout=2)
            is_seen = path == PROPERTIES or (instant is not None and instant.is_completed)
        if is_seen:
            check_current_files(self._store)


def _open(store: Storage) -> TableRef:
    return open_ref(store.uri, {}, Env(store, SystemClock(), SystemIds()))


def check_current_files(store: Storage) -> None:
    """The current file slices are the same by the metadata table and by directories."""
    ref = _open(store)
    if not has_metadata_table(ref.properties):
        return
    timeline = ref.load_timeline()
    try:
        table_files = list(_lister(ref, open_current_metadata_table(ref, timeline)).files())
    except HoodooError as error:
        raise Violation(f"the metadata table cannot be read: {error}") from None
    storage_files = list(DirectoryLister(ref.env, ref.properties.keys).files())
    by_metadata, by_directories = (_current(ref, files) for files in (table_files, storage_files))
    if by_metadata != by_directories:
        only = sorted(set(by_metadata) - set(by_directories))
        lacking = sorted(set(by_directories) - set(by_metadata))
        raise Violation(f"the metadata table lists {only}, and lacks {lacking}")


def _lister(ref: TableRef, table: MetadataTable) -> MetadataLister:
    return MetadataLister(table, is_partitioned=ref.properties.keys.is_partitioned)


def _current(ref: TableRef, files: Iterable[DataFile]) -> dict[str, int]:
    """The files of the newest slices that are not replaced, with their sizes."""
    timeline = ref.load_timeline()
    groups, _ = group_files(
        ref, list(files), timeline.visibility(start=timeline.oldest_active_write)
    )
    replaced_groups = find_replaced(ref, timeline)
    return {
        file.path: file.size_bytes
        for group in groups
        if group.id not in replaced_groups
        for file in _files_of(group)
    }


def _files_of(group: FileGroup) -> Iterable[DataFile]:
    one = group.latest
    return (*([one.base] if one.base else []), *one.logs)


def check_metadata_table(store: Storage) -> None:
    """Once all is mended: the listing is that of the store, and statistics count each row once."""
    ref = _open(store)
    if not has_metadata_table(ref.properties):
        return
    check_current_files(store)
    table = open_metadata_table(ref.env, ref.load_timeline())
    size_in_table = {file.path: file.size_bytes for file in _lister(ref, table).files()}
    size_in_storage = {
        entry.path: entry.size_bytes
        for entry in store.list("", recursive=True)
        if data_file_time(entry.path) is not None
    }
    if size_in_table != size_in_storage:
        differ = sorted(set(size_in_table.items()) ^ set(size_in_storage.items()))
        raise Violation(f"the metadata table does not list what is stored: {differ}")
    _refuse_leftovers(ref, table)
    if COLUMN_STATS in ref.properties.metadata_partitions:
        _check_statistics(ref, table, list(size_in_table))
    check_record_index(store)


def check_record_index(store: Storage) -> None:
    """If there is one: it has every key of the table, in its file group, and no other."""
    ref = _open(store)
    if RECORD_INDEX not in ref.properties.metadata_partitions:
        return
    snapshot = take_snapshot(ref, lister=DirectoryLister(ref.env, ref.properties.keys))
    place_by_key: dict[str, tuple[str, str]] = {}
    if RECORD_KEY in snapshot.schema.names:
        rule = build_scan_rule(snapshot, columns=[RECORD_KEY])
        for read in slice_reads(snapshot, rule, snapshot.slices()):
            place = (str(read.slice.group.partition), str(read.slice.group.file_id))
            for key in read_slice(read).column(RECORD_KEY).to_pylist():
                if key in place_by_key:
                    raise Violation(f"key {key} is in {place_by_key[key]} and in {place}")
                place_by_key[key] = place
    table = open_metadata_table(ref.env, ref.load_timeline())
    entries = read_entries(table, table.load_partition(RECORD_INDEX))
    index_entries = {
        row["key"]: (row["partition"], row["file_id"])
        for row in entries.select(["key", "partition", "file_id"]).to_pylist()
    }
    if index_entries != place_by_key:
        differ = sorted(set(index_entries.items()) ^ set(place_by_key.items()))
        raise Violation(f"the record index is not that of the rows: {differ[:4]}")


def _refuse_leftovers(ref: TableRef, table: MetadataTable) -> None:
    """Nothing is pending there but a compaction that was cut off: the next one removes it."""
    kinds = (Action.DELTA_COMMIT, Action.ROLLBACK)
    for instant in table.timeline.pending:
        if instant.action in kinds:
            raise Violation(f"{instant} of the metadata table is still pending")
    times = {instant.requested_time for instant in ref.load_timeline()}
    last = find_last_compaction(table.timeline)
    for instant in table.timeline.completed:
        is_compacted = (
            last is not None and instant.completion_or_requested_time < last.requested_time
        )
        is_delta = instant.action is Action.DELTA_COMMIT and not is_compacted
        if is_delta and instant.requested_time not in times and not _is_solo(instant):
            raise Violation(f"{instant} of the metadata table is of no action of the table")


def _check_statistics(ref: TableRef, table: MetadataTable, files: list[str]) -> None:
    assert ref.properties.create_schema is not None
    schema = with_meta_fields(arrow_from_avro(ref.properties.create_schema))
    columns = load_indexed_columns(ref.env, Config(), ref.properties, schema)
    places = [(PartitionPath(path.rpartition("/")[0]), path) for path in files]
    facts = read_file_statistics(
        ref.env, LocalEngine(threads=1), places, columns.schema, wants_filters=False
    )
    right_entries = {
        (each.file_name, one.column): one.value_count
        for each in facts.ranges
        for one in each.ranges
    }
    entries = read_entries(table, table.load_partition(COLUMN_STATS))
    index_entries = {
        (row["file_name"], row["column_name"]): row["value_count"]
        for row in entries.select(["file_name", "column_name", "value_count"]).to_pylist()
    }
    if index_entries != right_entries:
        differ = sorted(set(index_entries.items()) ^ set(right_entries.items()))
        raise Violation(f"statistics count other values than files have: {differ[:4]}")


def _is_solo(instant: Instant) -> bool:
    return instant.requested_time.startswith(SOLO_TIME)
