"""The timeline for people: every instant with its state, its operation, its owner and its age.

Whether a writer is dead is a question of the store's time, and only a write would tell what time
it is there. Reports do not write. The newest modification time that they come across is a bound:
it is at least as late as that, so a writer has been silent for at least so long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoodoo.concurrency.heartbeats import WriterStatus, read_writer_status
from hoodoo.concurrency.transactions.transaction import MAX_AHEAD_MS
from hoodoo.errors import FormatError, InputError, ObjectNotFound
from hoodoo.format import json_files
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.commit import WRITER_KEY, CommitMetadata
from hoodoo.model.coordination import AbortedPlan
from hoodoo.model.instant import SERVICE_ACTIONS, Action, Instant, InstantTime, State
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import instant_path, moment_of, read_metadata

_COMMITS = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)


@dataclass(frozen=True, slots=True)
class InstantReport:
    """One instant: what it does, how far it got, who does it, and since when it is pending."""

    requested_time: InstantTime
    completion_time: InstantTime | None
    action: str
    state: str
    operation: str | None
    age_seconds: float | None
    owner: str | None
    """Who is at work on it, or made it, as far as that is told."""
    silent_seconds: float | None
    """Pending ones: for how long its owner has shown no sign of life, at least."""
    expiry_seconds: float | None
    """Pending ones: the silence after which its owner counts as dead."""
    is_dead: bool | None
    """Whether its owner is dead; None where that cannot be told."""
    is_archived: bool
    problem: str | None
    cancelled: str | None = None
    """Aborted ones: why they were cancelled."""


@dataclass(frozen=True, slots=True)
class _Entry:
    instant: Instant
    is_archived: bool = False
    content: bytes | None = None


def report_timeline(
    ref: TableRef, *, include_archived: bool = False, last: int | None = None
) -> list[InstantReport]:
    """Instants, oldest first; `last` leaves only so many of the newest, and all pending ones.

    The operation of a commit is in its file, so one file is read for each commit reported.
    """
    entries = [_Entry(instant) for instant in ref.load_timeline()]
    if include_archived:
        entries = _with_archived(ref, entries)
    selection = _select_last(entries, last)
    is_any_pending = any(entry.instant.is_pending for entry in selection)
    store_ms = newest_ms(ref) if is_any_pending else None
    return [_report(ref, entry, store_ms) for entry in selection]


def report_instant(ref: TableRef, instant: Instant) -> InstantReport:
    """One instant of the active timeline."""
    return _report(ref, _Entry(instant), newest_ms(ref) if instant.is_pending else None)


def _with_archived(ref: TableRef, active: Sequence[_Entry]) -> list[_Entry]:
    from hoodoo.table.history import load_history  # imports Arrow

    entries = {_identity(entry): entry for entry in active}
    for old in load_history(ref.env, ref.properties.timeline_paths):
        instant = Instant(old.requested_time, old.action, State.COMPLETED, old.completion_time)
        entry = _Entry(instant, is_archived=True, content=old.metadata)
        entries.setdefault(_identity(entry), entry)  # archiving may have been cut short
    return sorted(entries.values(), key=_identity)


def _identity(entry: _Entry) -> tuple[str, str]:
    return entry.instant.requested_time, entry.instant.action.completed_as.value


def _select_last(entries: list[_Entry], last: int | None) -> list[_Entry]:
    if last is None:
        return entries
    cut = max(0, len(entries) - last)
    return [entry for entry in entries[:cut] if entry.instant.is_pending] + entries[cut:]


def _report(ref: TableRef, entry: _Entry, store_ms: int | None) -> InstantReport:
    instant = entry.instant
    commit, problem = _commit(ref, entry)
    pulse = estimate_pulse(ref, instant, store_ms) if store_ms is not None else None
    return InstantReport(
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
        action=instant.action.value,
        state=instant.state.value,
        operation=commit.operation_type if commit else None,
        age_seconds=age_seconds(ref, instant) if instant.is_pending else None,
        owner=_owner(pulse, commit),
        silent_seconds=pulse.silent_ms / 1000 if pulse else None,
        expiry_seconds=pulse.expiry_ms / 1000 if pulse else None,
        is_dead=True if pulse and pulse.is_dead else None,
        is_archived=entry.is_archived,
        problem=problem,
        cancelled=_read_reason(ref, instant) if instant.state is State.ABORTED else None,
    )


def _read_reason(ref: TableRef, instant: Instant) -> str:
    """Why a plan was cancelled, by the record that it left."""
    try:
        data = ref.env.storage.read(paths.aborted_plan_path(instant.requested_time))
        return json_files.decode(data, AbortedPlan).reason or "unknown"
    except (ObjectNotFound, FormatError):
        return "unknown"


def _owner(pulse: WriterStatus | None, commit: CommitMetadata | None) -> str | None:
    if pulse is None:
        return commit.extra_metadata.get(WRITER_KEY) if commit else None
    if pulse.body is not None:
        return str(pulse.body)
    return "unknown (foreign heartbeat)" if pulse.has_heartbeat else "unknown (no heartbeat)"


def estimate_pulse(ref: TableRef, instant: Instant, store_ms: int) -> WriterStatus | None:
    """The last sign of life of who works on an instant; None if nobody is meant to, or it ended.

    `store_ms` is a time that has come for the store: see `newest_ms`.
    """
    pulse = read_writer_status(ref, instant, store_ms) if instant.is_pending else None
    if pulse is None:
        return None
    is_plan = instant.state is State.REQUESTED and instant.action in SERVICE_ACTIONS
    if is_plan and not pulse.has_heartbeat:
        return None  # it waits for someone to execute it
    return replace(pulse, silent_ms=max(0, pulse.silent_ms))


def newest_ms(ref: TableRef) -> int:
    """A time that has come for the store: the newest modification time where things happen."""
    places = (ref.properties.timeline_paths.active, paths.HEARTBEATS, paths.LOCK.rpartition("/")[0])
    return max(
        (entry.modified_ms for place in places for entry in ref.env.storage.list(place)), default=0
    )


def _commit(ref: TableRef, entry: _Entry) -> tuple[CommitMetadata | None, str | None]:
    """What a commit's file says; one that cannot be read is a problem to show."""
    instant = entry.instant
    if instant.action not in _COMMITS or instant.state not in (State.INFLIGHT, State.COMPLETED):
        return None, None
    try:
        if entry.is_archived:
            metadata = codec.decode(entry.content or b"", instant.action, instant.state)
        else:
            metadata = read_metadata(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:  # completed, archived or rolled back meanwhile
        return None, None
    except FormatError as error:
        return None, str(error)
    return (metadata if isinstance(metadata, CommitMetadata) else None), None


def age_seconds(ref: TableRef, instant: Instant) -> float | None:
    """Seconds since it was requested."""
    now_ms = ref.env.clock.now_ms()
    requested_ms = _requested_ms(ref, instant, now_ms)
    return None if requested_ms is None else (now_ms - requested_ms) / 1000


def _requested_ms(ref: TableRef, instant: Instant, now_ms: int) -> int | None:
    try:
        moment_ms = moment_of(ref.env.clock, ref.properties.timeline_zone, instant.requested_time)
    except InputError:  # digits, but no time
        moment_ms = None
    if moment_ms is not None and moment_ms <= now_ms + MAX_AHEAD_MS:
        return min(moment_ms, now_ms)
    # Nor does a time far ahead tell a moment: it is of another clock or zone. The file does.
    requested_state = replace(instant, state=State.REQUESTED)
    try:
        return ref.env.storage.stat(
            instant_path(ref.properties.timeline_paths, requested_state)
        ).modified_ms
    except ObjectNotFound:
        return None
