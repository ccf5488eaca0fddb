"""Building indexes while others write: base files first, then what was missed, then use.

Whatever writers add meanwhile lies on top of the base files, so these may be made at any time, by
any number of attempts: each is right, and the first one that is there counts. An attempt that was
cut off is resumed by the next one, which finds them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.concurrency.heartbeats import load_writer_statuses
from hoodoo.concurrency.transactions.gate import change_properties, publish
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.metadata_table import CATCH_UP_TIMEOUT_S
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.deprecated import with_old_fields
from hoodoo.errors import (
    CommitUnknown,
    FormatError,
    ObjectExists,
    ObjectNotFound,
    PlanNotExecutable,
)
from hoodoo.metadata_table.build import complete_bases, list_bases, make_base
from hoodoo.metadata_table.entries.encode import split_by_file_group
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.recorder import partitions_to_update
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model.commit import IndexCommitMetadata, IndexPartitionInfo
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import RECORD_INDEX, WRITABLE_PARTITIONS
from hoodoo.model.names import named_in_json
from hoodoo.model.plans import IndexPlan
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once
from hoodoo.services.indexing.catch_up import catch_up, is_being_built
from hoodoo.services.indexing.drop import drop_index
from hoodoo.services.indexing.entries import list_stored, make_entries
from hoodoo.services.indexing.plan import (
    IndexBuild,
    load_planned,
    planned_partitions,
    read_builds,
    refuse_restore,
    refuse_unknown,
    schedule_index,
)
from hoodoo.services.plans.pending import OwnedPlan, find_plans, own_plan
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_metadata
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")

_POLL_S = 1.0
_TRIES = 20
"""How often the files of a table are listed anew because a clean deleted some of them."""

ProgressOf = Callable[[str], Callable[[int, int], None] | None]
"""For an index, by its name: who is told how many of its files are made, and of how many."""


@with_old_fields
@dataclass(frozen=True, slots=True)
class IndexResult:
    """A build of indexes that has ended."""

    instant: InstantTime
    built: tuple[str, ...]
    """The partitions that are in use now."""
    dropped: tuple[str, ...] = ()
    """Those that were dropped while they were built."""
    completed_by_other: bool = field(default=False, metadata=named_in_json("was_done"))
    """Someone else has completed it."""


def create_index(
    ref: TableRef,
    partitions: Sequence[str],
    engine: Engine,
    *,
    columns: Sequence[str] | None = None,
    rebuild: bool = False,
    progress_of: ProgressOf = lambda partition: None,
) -> IndexResult | None:
    """Plan the builds of these partitions and run them; None if all are there.

    Builds that were planned before, and have some of them, are run as well. Raises as
    `schedule_index` and `run_index`.
    """
    plan_index(ref, partitions, columns=columns, rebuild=rebuild)
    results = [
        run_index(ref, instant.requested_time, engine, progress_of)
        for instant, plan in load_planned(ref, ref.load_timeline()).items()
        if planned_partitions(plan).intersection(partitions)
    ]
    index_results = [result for result in results if result is not None]
    if not index_results:
        return None
    return IndexResult(
        index_results[-1].instant,
        tuple(name for one in index_results for name in one.built),
        tuple(name for one in index_results for name in one.dropped),
        completed_by_other=all(one.completed_by_other for one in index_results),
    )


def plan_index(
    ref: TableRef,
    partitions: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    rebuild: bool = False,
) -> Instant | None:
    """Plan the builds of these partitions; `rebuild` drops first what there is of them."""
    refuse_unknown(ref, partitions)
    if rebuild:
        present = partitions_to_update(ref.reopen().properties)
        dropped_partitions = drop_index(ref, *present.intersection(partitions)) if present else ()
        partitions = tuple(
            dict.fromkeys((*partitions, *WRITABLE_PARTITIONS.intersection(dropped_partitions)))
        )
    return schedule_index(ref, partitions, columns=columns)


def run_index(
    ref: TableRef,
    instant: str | None,
    engine: Engine,
    progress_of: ProgressOf = lambda partition: None,
) -> IndexResult | None:
    """Execute a planned build: this one, or the oldest; None if there is none.

    Partitions are used as soon as they are complete. Raises `PlanInProgress`, and
    `PlanNotExecutable` if another engine's writes did not end in time: the build stays pending, and
    running it again goes on.
    Order: that of `own_plan`; of each partition: base files, then, in a transaction, what was
    missed, and the partition listed as complete by a decision of the head; completed instant.
    Crash: a pending build; the next one to run it goes on with what is there.
    """
    ref = reopen_for_writing(ref)
    if instant is None:
        plans = find_plans(ref.load_timeline(), Action.INDEXING)
        if not plans:
            return None
        instant = plans[0].requested_time
    owned_plan = own_plan(ref, instant)
    if isinstance(owned_plan, Instant):
        return _describe_done(ref, owned_plan)
    heartbeat = owned_plan.attempt.heartbeat
    try:
        result = _build_all(ref, owned_plan, engine, progress_of)
    except CommitUnknown:
        heartbeat.stop()
        raise
    except BaseException:
        heartbeat.release()
        raise
    heartbeat.end()
    log.info("index_built time=%s index=%s", owned_plan.time, ",".join(result.built))
    return result


def _describe_done(ref: TableRef, completed_instant: Instant) -> IndexResult:
    metadata = read_metadata(ref.env, ref.properties.timeline_paths, completed_instant)
    infos = metadata.index_partition_infos if isinstance(metadata, IndexCommitMetadata) else ()
    built_partitions = tuple(info.metadata_partition_path or "" for info in infos)
    return IndexResult(completed_instant.requested_time, built_partitions, completed_by_other=True)


def _build_all(
    ref: TableRef, owned_plan: OwnedPlan, engine: Engine, progress_of: ProgressOf
) -> IndexResult:
    plan = owned_plan.plan
    if not isinstance(plan, IndexPlan):
        path = instant_path(ref.properties.timeline_paths, owned_plan.attempt.instant)
        raise FormatError("no plan of an index build", source=path)
    heartbeat = owned_plan.attempt.heartbeat
    builds = read_builds(plan)
    waiting: list[IndexBuild] = []
    for build in builds:
        heartbeat.phase = f"build {build.partition}"
        if is_being_built(ref, build):
            _write_bases(ref, build, engine, progress_of(build.partition) or _tell_nobody)
            heartbeat.check()
            if not _publish_partition(ref, owned_plan, build, engine):
                waiting.append(build)
    heartbeat.phase = "catch up"
    _wait_for_others(ref, owned_plan, waiting, engine)
    return _complete(ref, owned_plan, planned_partitions(plan))


def _tell_nobody(count: int, total: int) -> None:
    pass


# -- base files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BaseTask:
    """A base file to be made."""

    env: Env
    build: IndexBuild
    number: int
    batch: EntryBatch


def _write_bases(
    ref: TableRef, build: IndexBuild, engine: Engine, progress: Callable[[int, int], None]
) -> None:
    """Make the base files that are not there yet: of all file groups, those without entries too.

    A file group without one would take up the base file of an earlier build that comes late.
    """
    there = list_bases(ref.env, build.partition, build.base_time)
    missing = [number for number in range(build.file_groups) if number not in there]
    progress(len(there), build.file_groups)
    if not missing:
        return
    entries = _make_entries(ref, build, engine)
    parts = split_by_file_group(build.partition, EntryBatch(entries), build.file_groups)
    tasks = [
        _BaseTask(ref.env, build, number, parts.get(number, EntryBatch())) for number in missing
    ]
    writers = LocalEngine() if engine.may_repeat_tasks else engine  # entries are in this process
    writers.map(
        _write_base,
        tasks,
        report_count=lambda count: progress(len(there) + count, build.file_groups),
    )


def _write_base(task: _BaseTask) -> None:
    build = task.build
    base = make_base(
        build.partition,
        task.number,
        task.batch.entries,
        build.base_time,
        created_ms=task.env.clock.now_ms(),
    )
    with suppress(ObjectExists):
        create_once(task.env, base.path, base.data)


def _make_entries(ref: TableRef, build: IndexBuild, engine: Engine) -> pa.Table:
    """The entries of a partition as of when its build was planned, or later where that is right.

    Entries about files must not include what actions add themselves: their counts would add up. Of
    keys, the entry on top wins, so the table may be read as it is now.
    """
    for _ in range(_TRIES):
        timeline = ref.load_timeline()
        known_timeline = timeline
        if build.partition != RECORD_INDEX:
            known_timeline = Timeline(
                tuple(i for i in timeline if i.is_completed and build.has_seen(i))
            )
        try:
            stored_files = list_stored(ref, known_timeline, start=timeline.oldest_active_write)
            return make_entries(ref, engine, known_timeline, build.partition, stored_files)
        except ObjectNotFound as error:  # a clean deleted it: the next listing does not have it
            log.info("index_files_gone partition=%s error=%s", build.partition, error)
    raise PlanNotExecutable(
        f"files of the table were deleted {_TRIES} times while {build.partition} was built; try "
        "again when no clean is running"
    )


# -- use ----------------------------------------------------------------------------------------


def _publish_partition(
    ref: TableRef, owned_plan: OwnedPlan, build: IndexBuild, engine: Engine
) -> bool:
    """List a partition as complete; false if a write of another engine has to end first.

    Needs: all its base files are there.
    Order: in a transaction: what others missed, as `catch_up`; the instant of the base files;
    properties, by a decision of the head.
    Crash: base files that nobody reads; the next attempt does the same again.
    """
    if _find_unaware(ref, build, ref.load_timeline()):
        return False
    with transaction(ref, "index") as txn:
        if not _is_current(txn, ref, owned_plan, build):
            return True
        if _find_unaware(ref, build, txn.timeline):
            return False

        def list_as_complete() -> dict[str, str | None]:
            present = reopen_for_writing(ref)
            refuse_restore(txn)
            if not _is_current(txn, present, owned_plan, build):
                return {}
            where = load_metadata_properties(ref.env).timeline_paths
            catch_up(txn, present, build, engine)
            complete_bases(txn, where, build.partition, build.base_time)
            return _move_to_complete(present, build.partition)

        change_properties(txn, list_as_complete)
    log.info("index_complete partition=%s", build.partition)
    return True


def _move_to_complete(ref: TableRef, partition: str) -> dict[str, str | None]:
    complete = {*ref.properties.metadata_partitions, partition}
    inflight = set(ref.properties.metadata_partitions_inflight) - {partition}
    return {
        METADATA_PARTITIONS.name: ",".join(sorted(complete)),
        METADATA_PARTITIONS_INFLIGHT.name: ",".join(sorted(inflight)),
    }


def _is_current(txn: Txn, ref: TableRef, owned_plan: OwnedPlan, build: IndexBuild) -> bool:
    """Whether this plan is to make the partition still: it may be dropped, or planned anew."""
    plan = txn.timeline.find(owned_plan.time, Action.INDEXING)
    return plan is not None and plan.is_pending and is_being_built(ref, build)


def _find_unaware(ref: TableRef, build: IndexBuild, timeline: Timeline) -> list[InstantTime]:
    """Writes of other engines that began before the build was planned, and are alive.

    They may have read the properties then, and would leave the partition out. hoodoo's own writers
    read them inside the gate, and a plan that nobody executes yet does so when it is executed.
    """
    waiting = [
        instant
        for instant in timeline.pending
        if instant.requested_time in build.pending
        and instant.state is State.INFLIGHT
        and instant.action is not Action.INDEXING
    ]
    pulses = load_writer_statuses(ref, waiting)
    return [time for time, pulse in pulses.items() if pulse.body is None and not pulse.is_dead]


def _wait_for_others(
    ref: TableRef, owned_plan: OwnedPlan, waiting: Sequence[IndexBuild], engine: Engine
) -> None:
    """Publish what waits for writes of other engines, as they end, or die."""
    clock, limit_s = ref.env.clock, ref.config.get(CATCH_UP_TIMEOUT_S)
    deadline = clock.monotonic() + limit_s
    waiting_builds = list(waiting)
    while waiting_builds := [
        b for b in waiting_builds if not _publish_partition(ref, owned_plan, b, engine)
    ]:
        owned_plan.attempt.heartbeat.check()
        if clock.monotonic() >= deadline:
            times = _find_unaware(ref, waiting_builds[0], ref.load_timeline())
            names = ", ".join(build.partition for build in waiting_builds)
            raise PlanNotExecutable(
                f"build {owned_plan.time} of {names} waits for writes of "
                f"another engine that began before it ({', '.join(times)}), for {limit_s} s by now "
                f"({CATCH_UP_TIMEOUT_S.name}); run it again, or drop the index"
            )
        clock.sleep(_POLL_S)


def _complete(ref: TableRef, owned_plan: OwnedPlan, partitions: frozenset[str]) -> IndexResult:
    """Complete the instant; what was dropped meanwhile is left out."""
    plan = owned_plan.plan
    assert isinstance(plan, IndexPlan)
    built_partitions: list[str] = []

    def prepare_metadata() -> IndexCommitMetadata:
        present = reopen_for_writing(ref).properties.metadata_partitions
        built_partitions[:] = sorted(partitions.intersection(present))
        infos = tuple(
            IndexPartitionInfo(
                metadata_partition_path=info.metadata_partition_path,
                index_upto_instant=info.index_upto_instant,
            )
            for info in plan.index_partition_infos
            if info.metadata_partition_path in built_partitions
        )
        return IndexCommitMetadata(index_partition_infos=infos)

    with transaction(ref, "index") as txn:
        if txn.timeline.find(owned_plan.time) is None:  # with all its partitions
            return IndexResult(owned_plan.time, (), tuple(sorted(partitions)))
        publish(txn, owned_plan.attempt, prepare_metadata)
    dropped_partitions = tuple(sorted(partitions.difference(built_partitions)))
    return IndexResult(owned_plan.time, tuple(built_partitions), dropped_partitions)
