"""Dropping indexes: complete ones, half-built ones, and those that hoodoo does not write."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import suppress

from hoodoo.concurrency.gate import change_properties
from hoodoo.concurrency.liveness import default_expiry_ms
from hoodoo.concurrency.removal import withdraw
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import InputError, NotFound, Unsupported
from hoodoo.format.index_definitions import drop_definitions
from hoodoo.metadata.recorder import (
    DEFINITIONS_PATH_KEY,
    INDEX_DEFINITIONS,
    recorded_partitions,
)
from hoodoo.model import paths
from hoodoo.model.index_build import planned_partitions
from hoodoo.model.metadata_table import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from hoodoo.model.paths import METADATA_TABLE, join
from hoodoo.model.table import TableProperties
from hoodoo.services.index_schedule import load_planned
from hoodoo.table.ref import TableRef
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.txn import Txn

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
        raise Unsupported("only tables of version 9 are written: upgrade the table first")
    gone: set[str] = set()
    with transaction(ref, "drop index") as txn:

        def take_out() -> dict[str, str | None]:
            gone.clear()
            present = ref.reopen().properties
            gone.update(_choose(present, partitions))
            return _without(present, gone)

        change_properties(txn, take_out)
        is_lost = clear_dropped(txn, ref, gone)
    if is_lost:
        log.info("drop_waits ms=%d reason=late-deletes", default_expiry_ms(ref))
        ref.env.clock.sleep(default_expiry_ms(ref) / 1000)  # else one may hit the next build
    log.info("index_dropped index=%s", ",".join(sorted(gone)))
    return tuple(sorted(gone))


def abort_builds(ref: TableRef) -> tuple[str, ...]:
    """Drop all partitions that are in the making: what they are about is about to change.

    Order and crash: those of `drop_index`.
    """
    inflight = ref.reopen().properties.metadata_partitions_inflight
    return drop_index(ref, *inflight) if inflight else ()


def clear_dropped(txn: Txn, ref: TableRef, gone: Collection[str]) -> bool:
    """Remove what is left of partitions that the properties do not name any more.

    True if the answer to a delete was lost: it may come late, whatever has that name by then.
    Needs: a Txn, in which that was decided.
    """
    _end_plans(txn, ref)
    _drop_definitions(ref, gone)
    is_lost = _delete_all(txn, METADATA_TABLE) if FILES in gone else False
    for partition in sorted(gone):
        is_lost |= _delete_all(txn, join(METADATA_TABLE, partition))
    return is_lost


def _choose(present: TableProperties, partitions: Iterable[str]) -> set[str]:
    """What goes with these partitions. Raises `InputError`."""
    known = recorded_partitions(present)
    chosen = set(partitions)
    if missing := sorted(chosen - known):
        there = f"there are {', '.join(sorted(known))}" if known else "the table has none"
        raise InputError(f"no index {', '.join(missing)}; {there}")
    if FILES in chosen:
        return set(known)
    if COLUMN_STATS in chosen:  # the columns of both are defined in one place
        chosen |= {PARTITION_STATS} & known
    if RECORD_INDEX in chosen:  # they lead to keys, and this one from there to files
        chosen |= {one for one in known if one.startswith(SECONDARY_INDEX_PREFIX)}
    return chosen


def _without(present: TableProperties, gone: Collection[str]) -> dict[str, str | None]:
    return {
        METADATA_PARTITIONS.name: ",".join(
            one for one in present.metadata_partitions if one not in gone
        ),
        METADATA_PARTITIONS_INFLIGHT.name: ",".join(
            one for one in present.metadata_partitions_inflight if one not in gone
        ),
    }


def _end_plans(txn: Txn, ref: TableRef) -> None:
    """Take plans off the timeline of which nothing is left, neither to build nor in use."""
    left = recorded_partitions(ref.reopen().properties)
    for instant, plan in load_planned(ref, txn.timeline).items():
        if not planned_partitions(plan) & left:
            withdraw(txn, instant, ref.env.ids.uuid(), lambda: None)
            delete_surely(ref.env, paths.heartbeat(instant.requested_time))
            log.info("index_plan_ended time=%s", instant.requested_time)


def _drop_definitions(ref: TableRef, gone: Collection[str]) -> None:
    path = ref.properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    with suppress(NotFound):
        data = ref.env.storage.read(path)
        left = drop_definitions(data, gone)
        if left != data:
            ref.env.storage.put(path, left)


def _delete_all(txn: Txn, directory: str) -> bool:
    is_lost = False
    for entry in list(txn.env.storage.list(directory, recursive=True)):
        txn.fence.ensure()
        is_lost |= delete_surely(txn.env, entry.path)
    return is_lost
