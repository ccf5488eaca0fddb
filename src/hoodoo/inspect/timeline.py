"""The timeline for people: every instant with its state, its operation, and its age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoodoo.config.table import TIMEZONE
from hoodoo.errors import FormatError, InputError, NotFound
from hoodoo.format import timeline as codec
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State, to_epoch_ms
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import instant_path, read_metadata

_COMMITS = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)


@dataclass(frozen=True, slots=True)
class InstantReport:
    """One instant: what it does, how far it got, and since when it is pending."""

    requested_time: InstantTime
    completion_time: InstantTime | None
    action: str
    state: str
    operation: str | None
    age_seconds: float | None
    owner: str | None
    is_archived: bool
    problem: str | None


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
    return [_report(ref, entry) for entry in _chosen(entries, last)]


def report_instant(ref: TableRef, instant: Instant) -> InstantReport:
    """One instant of the active timeline."""
    return _report(ref, _Entry(instant))


def _with_archived(ref: TableRef, active: Sequence[_Entry]) -> list[_Entry]:
    from hoodoo.timeline.history import load_history  # imports Arrow

    entries = {_identity(entry): entry for entry in active}
    for old in load_history(ref.env, ref.properties.timeline):
        instant = Instant(old.requested_time, old.action, State.COMPLETED, old.completion_time)
        entry = _Entry(instant, is_archived=True, content=old.metadata)
        entries.setdefault(_identity(entry), entry)  # archiving may have been cut short
    return sorted(entries.values(), key=_identity)


def _identity(entry: _Entry) -> tuple[str, str]:
    return entry.instant.requested_time, entry.instant.action.completed_as.value


def _chosen(entries: list[_Entry], last: int | None) -> list[_Entry]:
    if last is None:
        return entries
    cut = max(0, len(entries) - last)
    return [entry for entry in entries[:cut] if entry.instant.is_pending] + entries[cut:]


def _report(ref: TableRef, entry: _Entry) -> InstantReport:
    instant = entry.instant
    operation, problem = _operation(ref, entry)
    return InstantReport(
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
        action=instant.action.value,
        state=instant.state.value,
        operation=operation,
        age_seconds=_age_seconds(ref, instant) if instant.is_pending else None,
        owner=None,
        is_archived=entry.is_archived,
        problem=problem,
    )


def _operation(ref: TableRef, entry: _Entry) -> tuple[str | None, str | None]:
    """What a commit was asked to do; a file that cannot be read is a problem to show."""
    instant = entry.instant
    if instant.action not in _COMMITS or instant.state not in (State.INFLIGHT, State.COMPLETED):
        return None, None
    try:
        if entry.is_archived:
            metadata = codec.decode(entry.content or b"", instant.action, instant.state)
        else:
            metadata = read_metadata(ref.env, ref.properties.timeline, instant)
    except NotFound:  # completed, archived or rolled back meanwhile
        return None, None
    except FormatError as error:
        return None, str(error)
    return (metadata.operation_type if isinstance(metadata, CommitMetadata) else None), None


def _age_seconds(ref: TableRef, instant: Instant) -> float | None:
    """Seconds since it was requested."""
    requested_ms = _requested_ms(ref, instant)
    return None if requested_ms is None else (ref.env.clock.now_ms() - requested_ms) / 1000


def _requested_ms(ref: TableRef, instant: Instant) -> int | None:
    if ref.config.get(TIMEZONE).upper() == "UTC":
        try:
            return to_epoch_ms(instant.requested_time)
        except InputError:
            pass  # digits, but no time
    # Times in the local zone of some writer tell no moment; their files do.
    requested = replace(instant, state=State.REQUESTED)
    try:
        return ref.env.storage.stat(instant_path(ref.properties.timeline, requested)).modified_ms
    except NotFound:
        return None
