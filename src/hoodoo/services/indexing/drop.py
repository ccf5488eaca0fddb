"""Dropping indexes: complete ones, half-built ones, and those that hoodoo does not write."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress

from hoodoo.concurrency.heartbeats import default_expiry_ms
from hoodoo.concurrency.transactions.gate import change_properties, withdraw_rollback
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import InputError, ObjectNotFound, UnsupportedFeature
from hoodoo.format.json_files import drop_definitions
from hoodoo.metadata_table.recorder import partitions_to_update
from hoodoo.model import paths
from hoodoo.model.metadata_table import (
    COLUMN_STATS,
    DEFINITIONS_PATH_KEY,
    FILES,
    INDEX_DEFINITIONS,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from hoodoo.model.paths import METADATA_TABLE, join
from hoodoo.model.table import TableProperties
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.services.indexing.plan import load_planned, planned_partitions
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.services")


def drop_index(ref: TableRef, *partitions: str) -> tuple[str, ...]:
    """Take partitions of the metadata table out of use, and delete them; which those were.

    With `files` goes the whole metadata table: it lists all others' files. Builds of the partitions
    end; whoever runs one finds out when it is done. Of those that are not there, `InputError`.
    Order: in a transaction: properties, by a decision of the head; plans whose partitions are all
    gone, off the timeline; definitions; files.
    Crash: before the head nothing happened; after it files that nobody reads, or a plan without
    partitions: creating or dropping the index again removes them.
    """
    if not partitions:
        raise InputError("name an index to drop")
    if not ref.properties.version.is_writable:
        raise UnsupportedFeature("only tables of version 9 are written: upgrade the table first")
    dropped_partitions: set[str] = set()
    with transaction(ref, "drop index") as txn:

        def take_out() -> dict[str, str | None]:
            dropped_partitions.clear()
            present = ref.reopen().properties
            dropped_partitions.update(_choose(present, partitions))
            return _without(present, dropped_partitions)

        change_properties(txn, take_out)
        is_lost = clear_dropped(txn, ref, dropped_partitions)
    if is_lost:
        log.info("drop_waits ms=%d reason=late-deletes", default_expiry_ms(ref))
        ref.env.clock.sleep(default_expiry_ms(ref) / 1000)  # else one may hit the next build
    log.info("index_dropped index=%s", ",".join(sorted(dropped_partitions)))
    return tuple(sorted(dropped_partitions))


def abort_builds(ref: TableRef) -> tuple[str, ...]:
    """Drop all partitions that are in the making: what they are about is about to change.

    Order and crash: those of `drop_index`.
    """
    inflight = ref.reopen().properties.metadata_partitions_inflight
    return drop_index(ref, *inflight) if inflight else ()


def clear_dropped(txn: Txn, ref: TableRef, dropped_partitions: Collection[str]) -> bool:
    """Remove what is left of partitions that the properties do not name any more.

    True if the answer to a delete was lost: it may come late, whatever has that name by then.
    Needs: a Txn, in which that was decided.
    """
    _end_plans(txn, ref)
    _drop_definitions(ref, dropped_partitions)
    is_lost = _delete_all(txn, METADATA_TABLE) if FILES in dropped_partitions else False
    for partition in sorted(dropped_partitions):
        is_lost |= _delete_all(txn, join(METADATA_TABLE, partition))
    return is_lost


def _choose(present: TableProperties, partitions: Iterable[str]) -> set[str]:
    """What goes with these partitions. Raises `InputError`."""
    present_partitions = partitions_to_update(present)
    partitions_to_drop = set(partitions)
    if missing := sorted(partitions_to_drop - present_partitions):
        there = (
            f"there are {', '.join(sorted(present_partitions))}"
            if present_partitions
            else "the table has none"
        )
        raise InputError(f"no index {', '.join(missing)}; {there}")
    if FILES in partitions_to_drop:
        return set(present_partitions)
    if COLUMN_STATS in partitions_to_drop:  # the columns of both are defined in one place
        partitions_to_drop |= {PARTITION_STATS} & present_partitions
    if RECORD_INDEX in partitions_to_drop:  # they lead to keys, and this one from there to files
        partitions_to_drop |= {
            one for one in present_partitions if one.startswith(SECONDARY_INDEX_PREFIX)
        }
    return partitions_to_drop


def _without(
    present: TableProperties, dropped_partitions: Collection[str]
) -> dict[str, str | None]:
    return {
        METADATA_PARTITIONS.name: ",".join(
            one for one in present.metadata_partitions if one not in dropped_partitions
        ),
        METADATA_PARTITIONS_INFLIGHT.name: ",".join(
            one for one in present.metadata_partitions_inflight if one not in dropped_partitions
        ),
    }


def _end_plans(txn: Txn, ref: TableRef) -> None:
    """Take plans off the timeline of which nothing is left, neither to build nor in use."""
    present_partitions = partitions_to_update(ref.reopen().properties)
    for instant, plan in load_planned(ref, txn.timeline).items():
        if not planned_partitions(plan) & present_partitions:
            withdraw_rollback(txn, instant, ref.env.ids.uuid(), lambda: None)
            delete_surely(ref.env, paths.heartbeat(instant.requested_time))
            log.info("index_plan_ended time=%s", instant.requested_time)


def _drop_definitions(ref: TableRef, dropped_partitions: Collection[str]) -> None:
    path = ref.properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    with suppress(ObjectNotFound):
        data = ref.env.storage.read(path)
        new_data = drop_definitions(data, dropped_partitions)
        if new_data != data:
            ref.env.storage.put(path, new_data)


def _delete_all(txn: Txn, directory: str) -> bool:
    is_lost = False
    for entry in list(txn.env.storage.list(directory, recursive=True)):
        txn.fence.ensure_publish_window()
        is_lost |= delete_surely(txn.env, entry.path)
    return is_lost
