"""The record index: the metadata table knows the file group of every key; data files are not read.

Where the table has no complete record index, or a damaged one, all files are searched, as by the
global simple index: slower, and with the same result. Two things differ from searching. A key that
a log deleted is nowhere, so it comes back as a new row. And the file group that the record index
names is believed: a key that is in several partitions is known in one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hoodoo.config.metadata_table import METADATA_ENABLE
from hoodoo.errors import FormatError, StorageError, UnsupportedFeature
from hoodoo.metadata_table.indexes.record_index import open_locations
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.read.file_listing import open_current_metadata_table
from hoodoo.read.snapshot import Snapshot
from hoodoo.write.index.index import KeyLookup
from hoodoo.write.index.simple import GlobalSimpleIndex

log = logging.getLogger("hoodoo.write")


@dataclass(frozen=True, slots=True)
class RecordIndex(GlobalSimpleIndex):
    """A key is one row of the whole table; rows stay where their key lives unless they `move`."""

    moves: bool = False

    def open_lookup(self, snapshot: Snapshot) -> KeyLookup | None:
        """The record index as of a snapshot of the whole timeline; None if it cannot be used."""
        ref = snapshot.ref
        reason: object = "there is no complete record index"
        if not ref.config.get(METADATA_ENABLE):
            reason = f"{METADATA_ENABLE.name}=false"
        elif RECORD_INDEX in ref.properties.metadata_partitions:
            try:
                table = open_current_metadata_table(ref, snapshot.timeline)
                groups = (group.id for group in snapshot.groups)
                return open_locations(table, snapshot.timeline, groups)
            except (FormatError, StorageError, UnsupportedFeature) as error:
                reason = error
        log.warning("record_index_not_used table=%s reason=%s", ref.uri, reason)
        return None
