"""Planning index builds: from then on every action writes the partitions, and nobody reads them.

The moment that counts is the decision that lists the partitions as in the making. An action that is
decided later has read the properties inside the gate, and writes the partitions too, unless its
engine knows no head. All that ended before, by the `since` of an `IndexBuild`, is in the base files
that the build makes. So no commit can be missed. `IndexBuild` is what a plan says of a partition
beside what Apache Hudi records. A crash leaves a pending plan, and partitions that nobody reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hoodoo.concurrency.transactions.gate import change_properties, request_plan
from hoodoo.concurrency.transactions.transaction import Txn, new_time, transaction
from hoodoo.config.concurrency import LOCK_PROVIDER, LockProvider
from hoodoo.config.table import METADATA_PARTITIONS_INFLIGHT
from hoodoo.errors import ConfigError, FormatError, InputError, UnsupportedFeature
from hoodoo.format.timeline import instant_files as codec
from hoodoo.metadata_table.build import make_metadata_table, open_partition
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model.commit import IndexPartitionInfo
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import (
    DEFINITIONS_PATH_KEY,
    FILES,
    PARTITION_STATS,
    WRITABLE_PARTITIONS,
)
from hoodoo.model.plans import IndexPlan
from hoodoo.read.snapshot import take_snapshot
from hoodoo.services.indexing.entries import choose_file_groups, define_index
from hoodoo.services.plans.pending import find_plans
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_plan
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


# -- what a plan says of a partition ------------------------------------------------------------


_SINCE = "hoodoo.since"
_PENDING = "hoodoo.pending"
_OPENED_AT = "hoodoo.opened.at"
_FILE_GROUPS = "hoodoo.file.groups"


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """One partition of the metadata table that is to be built."""

    partition: str
    since: InstantTime
    """When the partition was listed as in the making: the time of that decision."""
    pending: tuple[InstantTime, ...]
    """The instants that were pending then: another engine may not know of the build."""
    opened_at: InstantTime
    """The instant of the metadata table that made the file groups."""
    file_groups: int

    @property
    def base_time(self) -> InstantTime:
        """The instant of the metadata table that makes the base files: the next one."""
        return InstantTime(f"{int(self.opened_at) + 1:017d}")

    def has_seen(self, instant: Instant) -> bool:
        """Whether a completed instant had ended when the build was planned."""
        return (
            instant.completion_or_requested_time < self.since
            and instant.requested_time not in self.pending
        )


def make_plan(builds: Sequence[IndexBuild], *, upto: InstantTime | None) -> IndexPlan:
    """The plan of these builds; `upto` is the last commit that has no pending one before it."""
    return IndexPlan(index_partition_infos=tuple(_describe(build, upto) for build in builds))


def read_builds(plan: IndexPlan) -> list[IndexBuild]:
    """The builds of a plan. `FormatError` if another engine made it."""
    return [_parse(info) for info in plan.index_partition_infos]


def planned_partitions(plan: IndexPlan) -> frozenset[str]:
    """The partitions of a plan, whoever made it."""
    infos = plan.index_partition_infos
    return frozenset(i.metadata_partition_path for i in infos if i.metadata_partition_path)


def find_upto(instants: Sequence[Instant]) -> InstantTime | None:
    """The last completed write before the first pending one: up to there are no holes."""
    upto = None
    for instant in sorted(instants, key=lambda each: each.requested_time):
        if not instant.action.writes_data:
            continue
        if instant.is_pending:
            break
        if instant.is_completed:
            upto = instant.requested_time
    return upto


def _describe(build: IndexBuild, upto: InstantTime | None) -> IndexPartitionInfo:
    return IndexPartitionInfo(
        metadata_partition_path=build.partition,
        index_upto_instant=upto or build.since,
        extra_metadata={
            _SINCE: build.since,
            _PENDING: ",".join(build.pending),
            _OPENED_AT: build.opened_at,
            _FILE_GROUPS: str(build.file_groups),
        },
    )


def _parse(info: IndexPartitionInfo) -> IndexBuild:
    extra_metadata = info.extra_metadata or {}
    try:
        pending = extra_metadata[_PENDING]
        return IndexBuild(
            info.metadata_partition_path or "",
            InstantTime(extra_metadata[_SINCE]),
            tuple(map(InstantTime, pending.split(","))) if pending else (),
            InstantTime(extra_metadata[_OPENED_AT]),
            int(extra_metadata[_FILE_GROUPS]),
        )
    except (KeyError, ValueError):
        raise FormatError(
            f"the plan to build {info.metadata_partition_path} was not made by hoodoo: run it with "
            "the engine that made it, or drop the index and create it again"
        ) from None


# -- scheduling a build -------------------------------------------------------------------------


_ROW_BYTES = 32
"""What a row takes on disk, if nobody knows better: fewer than most do."""


def schedule_index(
    ref: TableRef, partitions: Sequence[str], *, columns: Sequence[str] | None = None
) -> Instant | None:
    """Plan to build these partitions of the metadata table; None if all are there, or planned.

    A table without a metadata table gets one, and `files` is planned with the others. `columns` are
    those that get statistics; without them, the settings tell.

    Raises `InputError` for what is no index, `UnsupportedFeature` while a restore is pending.
    Order: in a transaction: metadata table, if there is none; definitions; file groups of each
    partition; the partitions listed as in the making, by a decision of the head; plan, by another.
    Crash: before the first decision, files that nobody looks at; between the two, partitions in
    the making without a plan, which the next one to plan them opens anew.
    """
    refuse_unknown(ref, partitions)
    rows = _estimate_rows(ref) if WRITABLE_PARTITIONS.intersection(partitions) - {FILES} else 0
    with transaction(ref, "schedule index") as txn:
        group_facts_by_partition: dict[str, tuple[InstantTime, int]] = {}
        if not _find_missing(txn, reopen_for_writing(ref), partitions):
            return None

        def list_as_inflight() -> dict[str, str | None]:
            group_facts_by_partition.clear()
            return _open_partitions(txn, ref, partitions, columns, rows, group_facts_by_partition)

        change_properties(txn, list_as_inflight)
        since, pending = txn.head.latest, tuple(i.requested_time for i in txn.timeline.pending)
        assert since is not None
        builds = [
            IndexBuild(p, since, pending, *group_facts)
            for p, group_facts in group_facts_by_partition.items()
        ]
        if not builds:  # someone else was faster
            return None
        plan = codec.encode(make_plan(builds, upto=find_upto(txn.timeline.instants)))
        plan_instant = request_plan(
            txn, Action.INDEXING, ref.env.ids.uuid(), lambda: (new_time(txn), plan)
        )
    log.info(
        "scheduled time=%s index=%s",
        plan_instant.requested_time,
        ",".join(group_facts_by_partition),
    )
    return plan_instant


def refuse_unknown(ref: TableRef, partitions: Sequence[str]) -> None:
    """Fail for names of no index, and for indexes that this table cannot have."""
    if not partitions:
        raise InputError(f"name an index: {', '.join(sorted(WRITABLE_PARTITIONS))}")
    for partition in partitions:
        if partition not in WRITABLE_PARTITIONS:
            index_names = ", ".join(sorted(WRITABLE_PARTITIONS))
            raise InputError(f"no index {partition!r}; there are {index_names}")
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
        raise UnsupportedFeature(
            f"a restore ({instant.requested_time}) is not finished: no index is built before that; "
            "finish it with `hoodoo restore`"
        )


def load_planned(ref: TableRef, timeline: Timeline) -> dict[Instant, IndexPlan]:
    """The pending plans of index builds, oldest first."""
    plans = {}
    for instant in find_plans(timeline, Action.INDEXING):
        plan = read_plan(ref.env, ref.properties.timeline_paths, instant)
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
    completed_builds = [
        instant
        for instant in timeline.completed
        if instant.action is Action.INDEXING
        and ended_after is not None
        and instant.completion_or_requested_time > ended_after
    ]
    for instant in (*find_plans(timeline, Action.INDEXING), *completed_builds):
        yield instant.requested_time
        plan = read_plan(ref.env, ref.properties.timeline_paths, instant)
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
    group_facts_by_partition: dict[str, tuple[InstantTime, int]],
) -> dict[str, str | None]:
    """Make what actions need to write the partitions; what the properties then say.

    Fills `group_facts_by_partition`: the instant that made the file groups, and how many.
    """
    refuse_restore(txn)
    ref = reopen_for_writing(ref)
    missing = _find_missing(txn, ref, partitions)
    changes: dict[str, str | None] = {}
    if FILES in missing:
        where = make_metadata_table(txn, ref.properties)
    else:
        where = load_metadata_properties(ref.env).timeline_paths
    for partition in missing:
        path = define_index(ref, txn.timeline, partition, columns)
        if path is not None:
            changes[DEFINITIONS_PATH_KEY] = path
        file_groups = choose_file_groups(ref.config, partition, rows)
        time = open_partition(txn, where, partition, file_groups=file_groups)
        group_facts_by_partition[partition] = (time, file_groups)
    inflight = {*ref.properties.metadata_partitions_inflight, *missing}
    changes[METADATA_PARTITIONS_INFLIGHT.name] = ",".join(sorted(inflight))
    return changes


def _estimate_rows(ref: TableRef) -> int:
    """How many rows the table has at most, by the size of its files: for the file groups."""
    total = sum(one.base.size_bytes for one in take_snapshot(ref).slices() if one.base)
    return total // _ROW_BYTES
