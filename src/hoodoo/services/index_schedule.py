"""Planning index builds: from then on every action writes the partitions, and nobody reads them.

The moment that counts is the decision that lists the partitions as in the making. Whoever decides
later has read the properties inside the gate, and writes them too; all that ended before is in the
base files that the build makes. So no commit can be missed, whatever it is doing meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from hoodoo.concurrency.gate import change_properties, request
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.concurrency import LOCK_PROVIDER, LockProvider
from hoodoo.config.table import METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import ConfigError, FormatError, InputError, Unsupported
from hoodoo.format import timeline as codec
from hoodoo.metadata.build import make_metadata_table, open_partition
from hoodoo.metadata.metadata_table import load_metadata_properties
from hoodoo.metadata.recorder import DEFINITIONS_PATH_KEY
from hoodoo.model.index_build import (
    IndexBuild,
    find_upto,
    make_plan,
    planned_partitions,
    read_builds,
)
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import FILES, PARTITION_STATS, WRITABLE_PARTITIONS
from hoodoo.model.plan import IndexPlan
from hoodoo.services.index_definitions import define_index
from hoodoo.services.index_entries import choose_file_groups
from hoodoo.services.pending import find_plans
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import take_snapshot
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.load import read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn, new_time

log = logging.getLogger("hoodoo.services")

_ROW_BYTES = 32
"""What a row takes on disk, if nobody knows better: fewer than most do."""


def schedule_index(
    ref: TableRef, partitions: Sequence[str], *, columns: Sequence[str] | None = None
) -> Instant | None:
    """Plan to build these partitions of the metadata table; None if all are there, or planned.

    A table without a metadata table gets one, and `files` is planned with the others. `columns` are
    those that get statistics; without them, the settings tell.

    Raises `InputError` for what is no index, `Unsupported` while a restore is pending.
    Order: in a transaction: metadata table, if there is none; definitions; file groups of each
    partition; the partitions listed as in the making, by a decision of the head; plan, by another.
    Crash: before the first decision, files that nobody looks at; between the two, partitions in
    the making without a plan, which the next one to plan them opens anew.
    """
    refuse_unknown(ref, partitions)
    rows = _estimate_rows(ref) if WRITABLE_PARTITIONS.intersection(partitions) - {FILES} else 0
    with transaction(ref, "schedule index") as txn:
        opened: dict[str, tuple[InstantTime, int]] = {}
        if not _find_missing(txn, reopen_for_writing(ref), partitions):
            return None

        def list_as_inflight() -> dict[str, str | None]:
            opened.clear()
            return _open_partitions(txn, ref, partitions, columns, rows, opened)

        change_properties(txn, list_as_inflight)
        since, pending = txn.head.latest, tuple(i.requested_time for i in txn.timeline.pending)
        assert since is not None
        builds = [IndexBuild(p, since, pending, *told) for p, told in opened.items()]
        if not builds:  # someone else was faster
            return None
        plan = codec.encode(make_plan(builds, upto=find_upto(txn.timeline.instants)))
        scheduled = request(txn, Action.INDEXING, ref.env.ids.uuid(), lambda: (new_time(txn), plan))
    log.info("scheduled time=%s index=%s", scheduled.requested_time, ",".join(opened))
    return scheduled


def refuse_unknown(ref: TableRef, partitions: Sequence[str]) -> None:
    """Fail for names of no index, and for indexes that this table cannot have."""
    if not partitions:
        raise InputError(f"name an index: {', '.join(sorted(WRITABLE_PARTITIONS))}")
    for partition in partitions:
        if partition not in WRITABLE_PARTITIONS:
            known = ", ".join(sorted(WRITABLE_PARTITIONS))
            raise InputError(f"no index {partition!r}; there are {known}")
        if partition == PARTITION_STATS and not ref.properties.keys.is_partitioned:
            raise InputError("a table without partitions has no statistics of partitions")
    if ref.config.get(LOCK_PROVIDER) is LockProvider.IN_PROCESS:
        raise ConfigError(
            key=LOCK_PROVIDER.name,
            value=ref.config.get(LOCK_PROVIDER).value,
            reason="an index is built beside other processes, which such a lock does not see; "
            "leave the key out, so that the table's own store has the lock",
        )


def refuse_restore(txn: Txn) -> None:
    """What is built in the middle of a restore would have what the restore takes back."""
    for instant in find_plans(txn.timeline, Action.RESTORE):
        raise Unsupported(
            f"a restore ({instant.requested_time}) is not finished: no index is built before that; "
            "finish it with `hoodoo restore`"
        )


def load_planned(ref: TableRef, timeline: Timeline) -> dict[Instant, IndexPlan]:
    """The pending plans of index builds, oldest first."""
    plans = {}
    for instant in find_plans(timeline, Action.INDEXING):
        plan = read_plan(ref.env, ref.properties.timeline, instant)
        if isinstance(plan, IndexPlan):
            plans[instant] = plan
    return plans


def find_build_bounds(
    ref: TableRef, timeline: Timeline, *, ended_after: InstantTime | None = None
) -> Iterator[InstantTime]:
    """From which instants on both timelines are needed as they are, for the sake of index builds.

    A build tells by the timeline what was completed when it was planned. One that `ended_after` the
    last compaction of the metadata table has log files of everything since then.
    """
    ended = [
        instant
        for instant in timeline.completed
        if instant.action is Action.INDEXING
        and ended_after is not None
        and instant.ended_at > ended_after
    ]
    for instant in (*find_plans(timeline, Action.INDEXING), *ended):
        yield instant.requested_time
        plan = read_plan(ref.env, ref.properties.timeline, instant)
        with suppress(FormatError):  # another engine's
            for build in read_builds(plan) if isinstance(plan, IndexPlan) else ():
                yield min((build.since, *build.pending))


def _find_missing(txn: Txn, ref: TableRef, partitions: Iterable[str]) -> list[str]:
    """Those of the partitions that are neither there nor planned; `files` comes with the first."""
    there = set(ref.properties.metadata_partitions)
    inflight = set(ref.properties.metadata_partitions_inflight)
    for plan in load_planned(ref, txn.timeline).values():
        there |= planned_partitions(plan) & inflight
    return [p for p in dict.fromkeys((FILES, *partitions)) if p not in there]


def _open_partitions(
    txn: Txn,
    ref: TableRef,
    partitions: Sequence[str],
    columns: Sequence[str] | None,
    rows: int,
    opened: dict[str, tuple[InstantTime, int]],
) -> dict[str, str | None]:
    """Make what actions need to write the partitions; what the properties then say.

    Fills `opened`: by partition, the instant that made the file groups, and how many.
    """
    refuse_restore(txn)
    ref = reopen_for_writing(ref)
    missing = _find_missing(txn, ref, partitions)
    changes: dict[str, str | None] = {}
    if FILES in missing:
        where = make_metadata_table(txn, ref.properties)
    else:
        where = load_metadata_properties(ref.env).timeline
    for partition in missing:
        path = define_index(ref, txn.timeline, partition, columns)
        if path is not None:
            changes[DEFINITIONS_PATH_KEY] = path
        file_groups = choose_file_groups(ref.config, partition, rows)
        time = open_partition(txn, where, partition, file_groups=file_groups)
        opened[partition] = (time, file_groups)
    inflight = {*ref.properties.metadata_partitions_inflight, *missing}
    changes[METADATA_PARTITIONS_INFLIGHT.name] = ",".join(sorted(inflight))
    return changes


def _estimate_rows(ref: TableRef) -> int:
    """How many rows the table has at most, by the size of its files: for the file groups."""
    total = sum(one.base.size_bytes for one in take_snapshot(ref).slices() if one.base)
    return total // _ROW_BYTES
