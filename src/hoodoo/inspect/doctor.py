"""What is wrong with a table, why, and the command that repairs it.

Whether someone is dead is a question of the store's time, so this writes a probe, if it may, and
deletes it; nothing else is written.

One of the checks compares the metadata table's listing with the files in storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hoodoo.concurrency.heartbeats import (
    SETTLED_EXPIRIES,
    default_expiry_ms,
    load_writer_statuses,
    store_time_ms,
)
from hoodoo.concurrency.transactions.decisions import is_decision_unfinished
from hoodoo.concurrency.transactions.head import read_head
from hoodoo.config.compaction import MAX_DELTA_COMMITS
from hoodoo.config.retention import (
    ARCHIVE_AUTOMATIC,
    CLEAN_AUTOMATIC,
    CLEAN_TRIGGER_COMMITS,
    KEEP_MAX_COMMITS,
)
from hoodoo.config.services import ROLLBACK_DELAY_MIN
from hoodoo.deprecated import with_old_fields
from hoodoo.errors import FormatError, HoodooError, ObjectNotFound, StorageError, UnsupportedFeature
from hoodoo.inspect.locks import lock_status
from hoodoo.inspect.timeline import newest_ms
from hoodoo.metadata_table.table import has_metadata_table
from hoodoo.model import paths
from hoodoo.model.files import DataFile, Visibility, instant_of_file
from hoodoo.model.instant import (
    ACTIONS_WITH_PLANS,
    REWRITE_ACTIONS,
    Action,
    Instant,
    InstantTime,
    State,
    is_instant_time,
    to_wall_ms,
)
from hoodoo.model.names import named_in_json
from hoodoo.model.table import TableType
from hoodoo.read.file_listing import DirectoryLister, open_current_metadata_table
from hoodoo.recovery.recover import RecoveryAction, judge_pending_instants
from hoodoo.recovery.rollback import load_plan_state
from hoodoo.recovery.strays import find_strays
from hoodoo.recovery.sweep import list_hoodie_directory
from hoodoo.services.clean.facts import load_last_clean
from hoodoo.services.compaction.compaction import load_activity_since_compaction
from hoodoo.services.plans.cancel import count_cancels, find_hot_groups, find_overdue
from hoodoo.services.repairs import Repair, describe_command
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, now_wall_ms, read_plan

# -- the metadata table against storage ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListingDifference:
    """Paths of files of completed instants about which metadata table and directories disagree."""

    unlisted_files: tuple[str, ...] = ()
    """In a directory, but not in the metadata table: readers do not see their rows."""
    absent_files: tuple[str, ...] = ()
    """In the metadata table, but not in a directory: reads of them fail."""
    resized_files: tuple[str, ...] = ()
    """Files whose size is another one than the metadata table says."""

    def __bool__(self) -> bool:
        return bool(self.unlisted_files or self.absent_files or self.resized_files)


def compare_listings(ref: TableRef) -> ListingDifference:
    """What differs, and still does on a second look: tables change while one looks.

    Raises `FormatError` if the metadata table cannot be read, or lacks a commit.
    """
    first = _compare(ref)
    if not first:
        return first
    again = _compare(ref)
    return ListingDifference(
        _intersect(first.unlisted_files, again.unlisted_files),
        _intersect(first.absent_files, again.absent_files),
        _intersect(first.resized_files, again.resized_files),
    )


def _intersect(first: tuple[str, ...], again: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in first if path in again)


def _compare(ref: TableRef) -> ListingDifference:
    from hoodoo.metadata_table.indexes.files import MetadataLister  # imports Arrow

    timeline = ref.load_timeline()
    visibility = timeline.visibility(start=timeline.oldest_active_write)
    keys = ref.properties.keys
    table = open_current_metadata_table(ref, timeline)
    size_in_metadata_table = _sizes(
        MetadataLister(table, is_partitioned=keys.is_partitioned).files(), visibility
    )
    size_in_storage = _sizes(list(DirectoryLister(ref.env, keys).files()), visibility)
    common_paths = size_in_metadata_table.keys() & size_in_storage.keys()
    return ListingDifference(
        tuple(sorted(size_in_storage.keys() - size_in_metadata_table.keys())),
        tuple(sorted(size_in_metadata_table.keys() - size_in_storage.keys())),
        tuple(
            sorted(
                path
                for path in common_paths
                if size_in_metadata_table[path] != size_in_storage[path]
            )
        ),
    )


def _sizes(files: list[DataFile], visibility: Visibility) -> dict[str, int]:
    return {file.path: file.size_bytes for file in files if visibility.sees(instant_of_file(file))}


# -- findings and repairs --------------------------------------------------------------------------


_MINUTE_MS = 60_000
_EXPIRIES = SETTLED_EXPIRIES + 1
"""Leftovers are swept one earlier; whoever should have done it was late."""
_TIMES_LATE = 3
"""So many times the work that makes a service due: nobody does it."""
_FILES = 5


@with_old_fields
@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a table."""

    problem: str = field(metadata=named_in_json("what"))
    cause: str = field(metadata=named_in_json("why"))
    repair: Repair
    command: str | None
    """What repairs it; None where nothing of hoodoo does."""
    instant: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class _CheckedTable:
    """A table, what time its store has, and how people call it."""

    ref: TableRef
    name: str
    timeline: Timeline
    now_ms: int

    def find(
        self,
        what: str,
        why: str,
        repair: Repair,
        instant: Instant | None = None,
        command: str | None = None,
    ) -> Finding:
        time = instant.requested_time if instant else None
        action = instant.action if instant else None
        if command is None and repair is not Repair.BY_HAND:
            command = describe_command(repair, self.name, time, action)
        return Finding(what, why, repair, command, time)


def diagnose(ref: TableRef, name: str | None = None) -> list[Finding]:
    """What is wrong with a table, in the order in which it is best repaired.

    Commands call the table by `name`, or by its URI.
    """
    patient = _CheckedTable(ref, name or ref.uri, ref.load_timeline(), _read_time_ms(ref))
    findings = [finding for look in _CHECKS for finding in look(patient)]
    order = list(Repair)
    return sorted(findings, key=lambda finding: order.index(finding.repair))


def _read_time_ms(ref: TableRef) -> int:
    """The store's time; where we may not write, a time that has come for it at least."""
    try:
        return store_time_ms(ref.env)
    except StorageError:
        return newest_ms(ref)


# -- the checks ------------------------------------------------------------------------------------


def _look_at_lock(patient: _CheckedTable) -> Iterator[Finding]:
    try:
        lock = lock_status(patient.ref)
    except HoodooError as error:
        yield patient.find("the lock cannot be looked at", str(error), Repair.BY_HAND)
        return
    if lock.is_held and not lock.is_live:
        who = f"{lock.app} on {lock.host}, process {lock.pid}" if lock.host else lock.owner
        why = f"{who} has not renewed it; whoever wants the lock has to wait for its end first"
        yield patient.find("the lock is held by someone who seems dead", why, Repair.BREAK_LOCK)


def _look_at_decision(patient: _CheckedTable) -> Iterator[Finding]:
    decision = read_head(patient.ref.env).decision
    if decision is not None and is_decision_unfinished(patient.ref.env, decision, patient.timeline):
        why = f"decision {decision.number} ({decision.path}) was taken and not carried out"
        yield patient.find(f"instant {decision.instant} is unfinished", why, Repair.RECOVER)


def _look_at_pending(patient: _CheckedTable) -> Iterator[Finding]:
    """Dead writes, rollbacks that nobody carries on, plans that go or that nobody runs."""
    ref, unreadable_instants = patient.ref, set()
    for instant in patient.timeline.pending:
        problem = _read_problem(ref, instant)
        if problem is not None:
            unreadable_instants.add(instant)
            what = f"{_name(instant)} cannot be read"
            yield patient.find(what, problem, Repair.BY_HAND, instant)
    timeline = patient.timeline.filter(lambda instant: instant not in unreadable_instants)
    overdue = {e.instant: e.reason for e in find_overdue(ref, timeline, patient.now_ms)}
    for instant, reason in overdue.items():
        yield patient.find(f"{_name(instant)} is to be cancelled", reason, Repair.CANCEL, instant)
    for verdict in judge_pending_instants(ref, timeline, patient.now_ms):
        instant = verdict.instant
        if instant in overdue:
            continue
        if verdict.fate is RecoveryAction.FINISH:
            what = f"{_name(instant)} was cut off"
            yield patient.find(what, verdict.reason, Repair.RECOVER, instant)
        elif verdict.fate is RecoveryAction.ROLL_BACK:
            is_plan = instant.action in REWRITE_ACTIONS
            what = "is a plan that failed" if is_plan else "is a dead write"
            yield patient.find(f"{_name(instant)} {what}", verdict.reason, Repair.RECOVER, instant)
        elif verdict.is_moot:
            command = f"hoodoo rollback {patient.name} {instant.requested_time}"
            what = f"{_name(instant)} is about a completed commit"
            yield patient.find(what, verdict.reason, Repair.BY_HAND, instant, command)
    yield from _find_stuck(patient, timeline.filter(lambda instant: instant not in overdue))


def _find_stuck(patient: _CheckedTable, timeline: Timeline) -> Iterator[Finding]:
    """Plans that only an executor can end, and that have none."""
    ref = patient.ref
    plans = [i for i in timeline.pending if _is_kept(ref, i)]
    pulses = load_writer_statuses(ref, plans, patient.now_ms)
    delay_ms = max(ref.config.get(ROLLBACK_DELAY_MIN), 0) * _MINUTE_MS
    for instant in plans:
        pulse = pulses[instant.requested_time]
        has_begun = instant.state is State.INFLIGHT or pulse.has_heartbeat
        if has_begun and pulse.is_dead:
            why = f"its executor died: {pulse}; what it had finished is adopted"
        elif not has_begun and pulse.silent_ms > delay_ms:
            why = f"nobody has run it for {pulse.silent_ms / 60_000:.0f} minutes"
        else:
            continue
        if instant.action is Action.RESTORE:
            yield _describe_restore(patient, instant, why)
        else:
            yield patient.find(f"{_name(instant)} is stuck", why, Repair.RUN_PLAN, instant)


def _describe_restore(patient: _CheckedTable, instant: Instant, why: str) -> Finding:
    plan = read_plan(patient.ref.env, patient.ref.properties.timeline_paths, instant)
    target = getattr(plan, "savepoint_to_restore_timestamp", None) or "INSTANT"
    command = f"hoodoo restore {patient.name} {target}"
    what = f"{_name(instant)} was cut off: nobody can commit"
    return patient.find(what, why, Repair.BY_HAND, instant, command)


def _is_kept(ref: TableRef, instant: Instant) -> bool:
    """Whether a plan waits for its executor, however long that takes."""
    if instant.action in (Action.CLEAN, Action.RESTORE):
        return True
    facts = load_plan_state(ref, instant)
    return facts.terms is not None and facts.terms.is_persistent and facts.cancel is None


def _look_at_cancels(patient: _CheckedTable) -> Iterator[Finding]:
    for entry in patient.ref.env.storage.list(paths.CANCELS):
        time = entry.path.rpartition("/")[2]
        plan = patient.timeline.find(time) if is_instant_time(time) else None
        if is_instant_time(time) and (plan is None or not plan.is_pending):
            what = f"a cancel request of {time} is left"
            why = f"that plan is {plan.state.value if plan else 'gone'}"
            instant = Instant(InstantTime(time), Action.CLUSTERING, State.ABORTED)
            yield patient.find(what, why, Repair.DROP_CANCEL, instant)


def _look_at_hot_groups(patient: _CheckedTable) -> Iterator[Finding]:
    """File groups that no clustering gets hold of, as writes always go first."""
    counts = count_cancels(patient.ref, patient.timeline)
    hot = find_hot_groups(patient.ref, counts)
    if hot:
        most = max(counts[group] for group in hot)
        what = f"{len(hot)} file groups are left out of cancellable clusterings"
        why = f"up to {most} plans about one of them were cancelled within a day: writes go first"
        command = f"hoodoo cluster {patient.name} --schedule --run"
        yield patient.find(what, why, Repair.BY_HAND, command=command)


def _look_at_leftovers(patient: _CheckedTable) -> Iterator[Finding]:
    ref = patient.ref
    traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
    least_ms = _EXPIRIES * default_expiry_ms(ref)
    pending = {instant.requested_time for instant in traces.timeline.pending}
    ended_markers = [
        entry
        for by_instant in (traces.sweep_notes, traces.finalize_markers)
        for time, entry in by_instant.items()
        if time not in pending
    ]
    decision = read_head(ref.env).decision
    staged_files = [
        each for each in traces.staged_contents if not decision or decision.staged != each.path
    ]
    entries = [*ended_markers, *staged_files, *traces.probes]
    old = [entry.path for entry in entries if patient.now_ms - entry.modified_ms > least_ms]
    if old:
        why = "nobody has swept for a while: writes do, and `hoodoo upkeep`"
        what = f"{len(old)} leftovers of writes that have ended, such as {old[0]}"
        yield patient.find(what, why, Repair.RECOVER)


def _look_at_strays(patient: _CheckedTable) -> Iterator[Finding]:
    strays = find_strays(patient.ref, patient.now_ms)
    if strays:
        names = ", ".join(strays[:_FILES]) + (", ..." if len(strays) > _FILES else "")
        why = "no commit names them: tasks that outlived their write have left them"
        yield patient.find(f"{len(strays)} stray data files: {names}", why, Repair.SWEEP)


def _look_at_metadata_table(patient: _CheckedTable) -> Iterator[Finding]:
    if not has_metadata_table(patient.ref.properties):
        return
    hint = "until it is built anew, read with hoodie.metadata.enable=false: that lists directories"
    try:
        differs = compare_listings(patient.ref)
    except (FormatError, StorageError, UnsupportedFeature) as error:
        what = f"the metadata table cannot be used: {error}"
        yield patient.find(what, "reads of hoodoo list directories instead", Repair.REBUILD)
        return
    for files, saying in (
        (differs.unlisted_files, "lacks {} files that are there"),
        (differs.absent_files, "lists {} files that are not there"),
        (differs.resized_files, "has other sizes for {} files"),
    ):
        if files:
            names = ", ".join(files[:_FILES]) + (", ..." if len(files) > _FILES else "")
            what = f"the metadata table {saying.format(len(files))}: {names}"
            # Data may be lost: a new metadata table would list what is left, and reads would pass.
            repair = Repair.BY_HAND if files is differs.absent_files else Repair.REBUILD
            command = describe_command(Repair.REBUILD, patient.name)
            yield patient.find(what, hint, repair, command=command)


def _look_at_services(patient: _CheckedTable) -> Iterator[Finding]:
    """Services that should have run long ago."""
    ref, timeline = patient.ref, patient.timeline
    hint = "writes run services that are due, unless told not to; so does `hoodoo upkeep --watch`"
    if ref.properties.type is TableType.MERGE_ON_READ:
        deltas = load_activity_since_compaction(ref, timeline).delta_commits
        if deltas >= _TIMES_LATE * ref.config.get(MAX_DELTA_COMMITS):
            what = f"{deltas} delta commits since the last compaction: reads get slower"
            yield patient.find(what, hint, Repair.UPKEEP)
    if ref.config.get(CLEAN_AUTOMATIC):
        last = load_last_clean(ref, timeline)
        since = (last.last_commit if last else None) or ""
        count = sum(commit.requested_time > since for commit in timeline.commits)
        least = max(
            _TIMES_LATE * ref.config.get(CLEAN_TRIGGER_COMMITS), ref.config.get(KEEP_MAX_COMMITS)
        )
        if count >= least:
            what = f"{count} commits since the last clean: old files pile up"
            yield patient.find(what, hint, Repair.UPKEEP)
    if ref.config.get(ARCHIVE_AUTOMATIC) and _is_archival_late(ref, timeline):
        what = f"{len(timeline.commits)} commits on the active timeline: everything gets slower"
        yield patient.find(what, hint, Repair.UPKEEP)


def _is_archival_late(ref: TableRef, timeline: Timeline) -> bool:
    """Whether many commits, all of them old enough for it, are not archived."""
    commits = timeline.commits.instants
    late = commits[: len(commits) - ref.config.get(KEEP_MAX_COMMITS)]
    if len(late) < _TIMES_LATE * ref.config.get(KEEP_MAX_COMMITS):
        return False
    now_ms = now_wall_ms(ref.env.clock, ref.properties.timeline_zone)
    return now_ms - to_wall_ms(
        late[-1].completion_or_requested_time
    ) > _EXPIRIES * default_expiry_ms(ref)


_CHECKS: tuple[Callable[[_CheckedTable], Iterator[Finding]], ...] = (
    *(_look_at_lock, _look_at_decision, _look_at_pending, _look_at_cancels),
    _look_at_hot_groups,
    *(_look_at_leftovers, _look_at_strays, _look_at_metadata_table, _look_at_services),
)


def _read_problem(ref: TableRef, instant: Instant) -> str | None:
    """Why the plan of a pending instant cannot be read; None if it can, or needs not be."""
    if instant.action not in {*ACTIONS_WITH_PLANS, Action.CLEAN, Action.ROLLBACK, Action.RESTORE}:
        return None
    try:
        read_plan(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:
        return None
    except FormatError as error:
        return str(error)
    return None


def _name(instant: Instant) -> str:
    return f"{instant.action.value} {instant.requested_time}"
