"""Indexes that the options of a writer ask for: built, or planned, ahead of its write."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodoo.concurrency.transactions.gate import change_properties
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.key import Key
from hoodoo.config.metadata_table import (
    INDEX_ASYNC,
    INDEX_BLOOM_FILTERS,
    INDEX_COLUMN_STATS,
    INDEX_RECORDS,
    METADATA_ENABLE,
)
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import HoodooError, InputError
from hoodoo.metadata_table.build import fill_partition, make_metadata_table
from hoodoo.metadata_table.recorder import partitions_to_update
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    DEFINITIONS_PATH_KEY,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    WRITABLE_PARTITIONS,
)
from hoodoo.runtime.engine import Engine
from hoodoo.services.indexing.build import create_index
from hoodoo.services.indexing.entries import (
    choose_file_groups,
    define_index,
    list_stored,
    make_entries,
)
from hoodoo.services.indexing.plan import refuse_restore, schedule_index
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


_ASKED_BY: tuple[tuple[Key[bool], str], ...] = (
    (METADATA_ENABLE, FILES),
    (INDEX_COLUMN_STATS, COLUMN_STATS),
    (INDEX_BLOOM_FILTERS, BLOOM_FILTERS),
    (INDEX_RECORDS, RECORD_INDEX),
)


def requested_indexes(ref: TableRef) -> list[str]:
    """The indexes that options of the caller switch on; defaults ask for nothing."""
    options = ref.options
    if options.sets(METADATA_ENABLE) and not options.get(METADATA_ENABLE):
        return []
    index_names = [name for key, name in _ASKED_BY if options.sets(key) and options.get(key)]
    if COLUMN_STATS in index_names and ref.properties.keys.is_partitioned:
        index_names.append(PARTITION_STATS)
    return index_names


def build_requested_indexes(ref: TableRef, engine: Engine) -> None:
    """Build the indexes that the options ask for and the table has not, or only plan them.

    A write does not fail because of that: what goes wrong is told by a warning.
    """
    index_names = requested_indexes(ref)
    if not index_names:
        return
    try:
        missing = set(index_names) - partitions_to_update(ref.reopen().properties)
        if not missing:
            return
        if ref.config.get(INDEX_ASYNC):
            schedule_index(ref, sorted(missing))
        else:
            create_index(ref, sorted(missing), engine)
    except HoodooError as error:
        log.warning("index_not_built index=%s error=%s", ",".join(index_names), error)


def default_metadata_partitions(ref: TableRef) -> tuple[str, ...]:
    """The partitions that a new table's metadata table gets, by its options."""
    partitions = [FILES]
    if ref.config.get(INDEX_COLUMN_STATS):
        partitions.append(COLUMN_STATS)
        if ref.properties.keys.is_partitioned:
            partitions.append(PARTITION_STATS)
    if ref.config.get(INDEX_BLOOM_FILTERS):
        partitions.append(BLOOM_FILTERS)
    if ref.config.get(INDEX_RECORDS):
        partitions.append(RECORD_INDEX)
    return tuple(partitions)


def add_metadata_partitions(ref: TableRef, engine: Engine, *partitions: str) -> TableRef:
    """Give the metadata table these partitions, and the table a metadata table if it has none.

    Those that are there already stay as they are. The table as it is then is returned.
    Order: lock; for each partition, `files` first: that of `fill_partition`; then the table's
    properties, by a decision of the head. If anybody decides meanwhile, all is built anew.
    Crash: before the head, files that nobody reads; the next one to come here removes them.
    """
    for partition in partitions:
        if partition not in WRITABLE_PARTITIONS:
            index_names = ", ".join(sorted(WRITABLE_PARTITIONS))
            raise InputError(f"no index {partition!r}; there are {index_names}")
        if partition == PARTITION_STATS and not ref.properties.keys.is_partitioned:
            raise InputError("a table without partitions has no statistics of partitions")
    with transaction(ref, "index") as txn:
        present = reopen_for_writing(ref)
        if set(partitions) <= set(present.properties.metadata_partitions):
            return present
        change_properties(txn, lambda: _build(txn, ref, engine, partitions))
    return ref.reopen()


def _build(
    txn: Txn, ref: TableRef, engine: Engine, partitions: Sequence[str]
) -> dict[str, str | None]:
    """Fill partitions by what the table of the Txn has; what its properties then say."""
    refuse_restore(txn)
    ref = reopen_for_writing(ref)
    present_partitions = set(ref.properties.metadata_partitions)
    changes: dict[str, str | None] = {}
    if FILES in present_partitions:
        where = load_metadata_properties(ref.env).timeline_paths
    else:
        present_partitions = set()
        where = make_metadata_table(txn, ref.properties)
    missing = [p for p in dict.fromkeys((FILES, *partitions)) if p not in present_partitions]
    stored_files = list_stored(ref, txn.timeline)
    for partition in missing:
        path = define_index(ref, txn.timeline, partition)
        if path is not None:
            changes[DEFINITIONS_PATH_KEY] = path
        entries = make_entries(ref, engine, txn.timeline, partition, stored_files)
        file_groups = choose_file_groups(ref.config, partition, entries.num_rows)
        fill_partition(txn, where, partition, entries, file_groups=file_groups)
    inflight = set(ref.properties.metadata_partitions_inflight) - set(missing)
    return changes | {
        METADATA_PARTITIONS.name: ",".join(sorted({*present_partitions, *missing})),
        METADATA_PARTITIONS_INFLIGHT.name: ",".join(sorted(inflight)),
    }
