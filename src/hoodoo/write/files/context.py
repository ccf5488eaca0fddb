"""`WriteContext`: what all handles of one write share."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodoo.concurrency.conflicts.early_detection import TaskConflictCheck
from hoodoo.concurrency.markers import Announcer
from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.config.write import (
    BLOOM_ENABLED,
    BLOOM_ENTRIES,
    BLOOM_FPP,
    BLOOM_MAX_ENTRIES,
    CODEC,
    DICTIONARY,
    PAGE_SIZE,
    ROW_GROUP_SIZE,
)
from hoodoo.format.parquet.base_file import ParquetOptions
from hoodoo.format.parquet.key_summary import BloomOptions
from hoodoo.model.instant import InstantTime
from hoodoo.read.base_files import ReadRule
from hoodoo.table.ref import TableRef


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What all handles of one write share. `schema` and `schema_json` have no meta fields.

    `by_key` is false for inserts: they add rows whatever keys are there. `epoch` counts the
    attempts at the instant. `repeats`: handles may run more than once, or outlive their write.
    `write_id` is what ids of new file groups are derived from. `early`: what handles look for when
    they announce files. `announcer`: who takes markers instead of the store. `has_stop_note`: a
    handle that fails tells the others by a note.
    """

    ref: TableRef
    requested_time: InstantTime
    by_key: bool
    schema: pa.Schema
    schema_json: str
    read_rule: ReadRule
    epoch: int = 1
    repeats: bool = False
    write_id: str = ""
    early: TaskConflictCheck | None = None
    announcer: Announcer | None = None
    has_stop_note: bool = False

    @property
    def marker_type(self) -> MarkerType:
        return self.ref.config.get(MARKER_TYPE)

    def parquet_options(self) -> ParquetOptions:
        """How base files are encoded, by the settings."""
        config = self.ref.config
        bloom = None
        if config.get(BLOOM_ENABLED):
            bloom = BloomOptions(
                entries=config.get(BLOOM_ENTRIES),
                fpp=config.get(BLOOM_FPP),
                max_entries=config.get(BLOOM_MAX_ENTRIES),
            )
        return ParquetOptions(
            codec=config.get(CODEC).value,
            row_group_bytes=config.get(ROW_GROUP_SIZE),
            page_bytes=config.get(PAGE_SIZE),
            dictionary=config.get(DICTIONARY),
            bloom=bloom,
        )
