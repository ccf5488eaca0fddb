"""Indexes that the options of a writer ask for: built, or planned, ahead of its write."""

from __future__ import annotations

import logging

from hoodoo.config.key import Key
from hoodoo.config.metadata import (
    INDEX_ASYNC,
    INDEX_BLOOM_FILTERS,
    INDEX_COLUMN_STATS,
    INDEX_RECORDS,
    METADATA_ENABLE,
)
from hoodoo.engine.engine import Engine
from hoodoo.errors import HoodooError
from hoodoo.metadata.recorder import recorded_partitions
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hoodoo.services.index_schedule import schedule_index
from hoodoo.services.indexing import create_index
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.services")

_ASKED_BY: tuple[tuple[Key[bool], str], ...] = (
    (METADATA_ENABLE, FILES),
    (INDEX_COLUMN_STATS, COLUMN_STATS),
    (INDEX_BLOOM_FILTERS, BLOOM_FILTERS),
    (INDEX_RECORDS, RECORD_INDEX),
)


def asked_indexes(ref: TableRef) -> list[str]:
    """The indexes that options of the caller switch on; defaults ask for nothing."""
    options = ref.options
    if options.sets(METADATA_ENABLE) and not options.get(METADATA_ENABLE):
        return []
    asked = [name for key, name in _ASKED_BY if options.sets(key) and options.get(key)]
    if COLUMN_STATS in asked and ref.properties.keys.is_partitioned:
        asked.append(PARTITION_STATS)
    return asked


def keep_asked_indexes(ref: TableRef, engine: Engine) -> None:
    """Build the indexes that the options ask for and the table has not, or only plan them.

    A write does not fail because of that: what goes wrong is told by a warning.
    """
    asked = asked_indexes(ref)
    if not asked:
        return
    try:
        missing = set(asked) - recorded_partitions(ref.reopen().properties)
        if not missing:
            return
        if ref.config.get(INDEX_ASYNC):
            schedule_index(ref, sorted(missing))
        else:
            create_index(ref, sorted(missing), engine)
    except HoodooError as error:
        log.warning("index_not_built index=%s error=%s", ",".join(asked), error)
