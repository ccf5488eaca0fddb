"""The metadata table of an upgraded table: it is built anew, in a transaction of its own.

What an old release wrote there is not taken over: log files grow in version 6, and statistics have
other forms. The note of an upgrade says which partitions the table had, until they are there again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from hoodoo.concurrency.locks.lock import Lock
from hoodoo.config.metadata_table import METADATA_ENABLE
from hoodoo.config.table import table_properties
from hoodoo.errors import ObjectExists, ObjectNotFound, UnsupportedFeature, add_error_source
from hoodoo.format import json_files
from hoodoo.format.json_files import define_column_stats, source_fields
from hoodoo.model import paths
from hoodoo.model.metadata_table import (
    COLUMN_STATS,
    FILES,
    INDEX_DEFINITIONS,
    PARTITION_STATS,
    WRITABLE_PARTITIONS,
)
from hoodoo.runtime.engine import Engine
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.services.upgrade.plan import PropertyChanges
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import refuse_unwritable

log = logging.getLogger("hoodoo.services")


@dataclass(frozen=True, slots=True)
class UpgradeNote:
    """That the files in the place of the new timeline are ours, and what is to be rebuilt."""

    from_version: int
    partitions: tuple[str, ...] = ()


def choose_partitions(ref: TableRef, changes: PropertyChanges) -> tuple[str, ...]:
    """The partitions of the metadata table that a table has again after it was changed so.

    Those that it had and that hoodoo writes; none if it cannot write the table, or must not.
    """
    properties = ref.properties
    had = set(properties.metadata_partitions)
    if FILES not in had or not ref.config.get(METADATA_ENABLE):
        return ()
    if not properties.keys.is_partitioned:
        had.discard(PARTITION_STATS)
    raw = {**properties.raw, **changes}
    new_properties = table_properties(
        {key: value for key, value in raw.items() if value is not None}
    )
    config = ref.options.over(new_properties.raw)
    try:
        refuse_unwritable(TableRef(ref.env, new_properties, config, ref.options))
    except UnsupportedFeature as error:
        log.warning("metadata_table_not_rebuilt table=%s reason=%s", ref.uri, error)
        return ()
    return tuple(sorted(had & WRITABLE_PARTITIONS))


def read_note(env: Env) -> UpgradeNote | None:
    """The note of an upgrade that is not finished; None if there is none."""
    try:
        data = env.storage.read(paths.UPGRADE)
    except ObjectNotFound:
        return None
    with add_error_source(paths.UPGRADE):
        return json_files.decode(data, UpgradeNote)


def leave_note(env: Env, lock: Lock, note: UpgradeNote) -> None:
    """Say that an upgrade is under way; what an earlier one had to rebuild stays to be rebuilt."""
    try:
        create_once(env, paths.UPGRADE, json_files.encode(note))
    except ObjectExists:
        log.warning("upgrade_goes_on from=%d", note.from_version)
        former = read_note(env)
        before = former.partitions if former is not None else ()
        if not set(note.partitions) <= set(before):
            both = tuple(sorted({*before, *note.partitions}))
            lock.ensure_publish_window()
            env.storage.put(paths.UPGRADE, json_files.encode(UpgradeNote(note.from_version, both)))


def tidy_definitions(env: Env, lock: Lock, partitions: tuple[str, ...]) -> None:
    """Drop the definitions of indexes that are not rebuilt; columns with statistics stay the same.

    Needs: no metadata table in the properties.
    Order: the definition of statistics, alone; then, without one, the file is deleted.
    """
    columns: tuple[str, ...] | None = None
    with suppress(ObjectNotFound), add_error_source(INDEX_DEFINITIONS):
        if COLUMN_STATS in partitions:
            columns = source_fields(env.storage.read(INDEX_DEFINITIONS), COLUMN_STATS)
    lock.ensure_publish_window()
    if columns is not None:
        env.storage.put(INDEX_DEFINITIONS, define_column_stats(None, columns))
        return
    for entry in list(env.storage.list(INDEX_DEFINITIONS.rpartition("/")[0], recursive=True)):
        lock.ensure_publish_window()
        delete_surely(env, entry.path)


def rebuild(ref: TableRef, engine: Engine, partitions: tuple[str, ...]) -> TableRef:
    """Build the metadata table of a table of version 9; the table as it is then.

    Needs: that the lock is not held.
    Order, Crash: those of `add_metadata_partitions`; the note is there still, so that upgrading
    goes on.
    """
    if not partitions or not ref.config.get(METADATA_ENABLE):
        return ref
    return add_metadata_partitions(ref, engine, *partitions)
