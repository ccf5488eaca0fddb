"""The window of an incremental read: the commits that completed in it, and what they touched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hoodoo.errors import InputError, TimelineError
from hoodoo.format import timeline as codec
from hoodoo.format.lsm import ArchivedInstant
from hoodoo.model.commit import CommitMetadata, RestoreMetadata
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State, from_wall_ms, to_wall_ms
from hoodoo.model.plan import RestorePlan
from hoodoo.table.ref import TableRef
from hoodoo.timeline.history import load_history
from hoodoo.timeline.load import read_commit, read_metadata, read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import parse_moment

EARLIEST = "earliest"
_LONGEST_WRITE_MS = 24 * 3_600_000
"""An archived commit that took longer than this is looked for in vain among those around it."""


@dataclass(frozen=True)
class Window:
    """The commits completed after `after` (None: all there ever were) and no later than `last`."""

    ref: TableRef
    timeline: Timeline
    """The active timeline, up to an instant below which nothing can appear any more."""
    archived: tuple[ArchivedInstant, ...]
    """Archived instants, as far as they matter to the window: those from `archived_from` on."""
    archived_from: InstantTime | None
    after: InstantTime | None
    last: InstantTime | None
    """None: whatever there is."""
    commits: tuple[tuple[InstantTime, CommitMetadata], ...]

    @cached_property
    def times(self) -> frozenset[InstantTime]:
        """The requested times of the commits."""
        return frozenset(time for time, _ in self.commits)

    @cached_property
    def written(self) -> frozenset[FileGroupId]:
        """The file groups that the commits wrote to."""
        return frozenset().union(*(metadata.file_groups() for _, metadata in self.commits))

    @cached_property
    def replaced(self) -> frozenset[FileGroupId]:
        """The file groups that they took out."""
        return frozenset().union(*(m.replaced_file_groups() for _, m in self.commits))

    @property
    def moves_rows(self) -> bool:
        """Whether a row may have left a file group, and come to another of its partition."""
        writes = [m for _, m in self.commits if not m.operation.is_table_service]
        return bool(self.replaced) or len(writes) > 1


def load_window(ref: TableRef, *, since: str, until: str | None) -> Window:
    """The window between two moments: instants (then: when they completed), or times.

    `since` is excluded, `until` included; `since` may be "earliest".
    """
    timeline = load_gapless_timeline(ref)
    after = None if since.strip().lower() == EARLIEST else find_completion(ref, timeline, since)
    last = None if until is None else find_completion(ref, timeline, until)
    if last is not None and after is not None and last < after:
        raise InputError(f"the window ends ({until}) before it begins ({since})")
    begin = last if after is None else after
    begin_from = _choose_archived_from(timeline, begin)
    archived: list[ArchivedInstant] = []
    if begin_from is not None:
        archived = load_history(ref.env, ref.properties.timeline, since=begin_from)
        archived = [one for one in archived if one.requested_time >= begin_from]
    if after is not None:
        _refuse_taken_back(ref, timeline, after, since)
    commits = () if after is None else tuple(_collect(ref, timeline, archived, after, last))
    return Window(ref, timeline, tuple(archived), begin_from, after, last, commits)


def ended_at(archived: ArchivedInstant) -> InstantTime:
    """When an archived instant completed; layout 1 does not record it."""
    return archived.completion_time or archived.requested_time


def load_gapless_timeline(ref: TableRef) -> Timeline:
    """The timeline up to a completed instant below which nothing can appear any more.

    Commits appear in the order of their completion times, but a listing takes its time: it may
    miss one that appears while it is under way, and have the next one. A second listing has all
    that were there when the first one ended.
    """
    first = ref.load_timeline()
    newest = max((instant.ended_at for instant in first.completed), default=None)
    again = ref.load_timeline()
    if newest is None:
        return again.where(lambda instant: not instant.is_completed)
    return again.where(lambda instant: not instant.is_completed or instant.ended_at <= newest)


def find_completion(ref: TableRef, timeline: Timeline, text: str) -> InstantTime:
    """When the instant of this time completed; the time itself if there is no such instant."""
    moment = parse_moment(ref.env.clock, ref.properties.timeline_zone, text)
    instant = timeline.completed.find(moment)
    if instant is not None:
        return instant.ended_at
    if timeline.start is not None and moment >= timeline.start:
        return moment
    history = load_history(ref.env, ref.properties.timeline, since=moment)
    ends = (one.completion_time for one in history if one.requested_time == moment)
    return next((end for end in ends if end is not None), moment)


def _choose_archived_from(timeline: Timeline, begin: InstantTime | None) -> InstantTime | None:
    """From which time on archived instants matter to a window; None if none does.

    Instants are archived by requested time, windows go by completion time: one that is archived may
    have completed after others that are not.
    """
    if begin is None:
        return None
    start = timeline.start
    if start is not None and _move(begin, -_LONGEST_WRITE_MS) >= start:
        return None
    return _move(begin if start is None else min(begin, start), -_LONGEST_WRITE_MS)


def _move(time: InstantTime, by_ms: int) -> InstantTime:
    try:
        return from_wall_ms(to_wall_ms(time) + by_ms)
    except InputError:  # no calendar time: somebody typed zeros
        return InstantTime("0" * 17)


def _collect(
    ref: TableRef,
    timeline: Timeline,
    archived: list[ArchivedInstant],
    after: InstantTime,
    last: InstantTime | None,
) -> list[tuple[InstantTime, CommitMetadata]]:
    """The commits of a window, by requested time."""
    found: dict[InstantTime, CommitMetadata] = {}
    for one in archived:
        if one.action.writes_data and after < ended_at(one) <= (last or ended_at(one)):
            metadata = codec.decode(one.metadata or b"", one.action, State.COMPLETED)
            if isinstance(metadata, CommitMetadata):
                found[one.requested_time] = metadata
    for instant in timeline.commits:
        if after < instant.ended_at <= (last or instant.ended_at):
            commit = read_commit(ref.env, ref.properties.timeline, instant)
            found[instant.requested_time] = commit
    return sorted(found.items())


def _refuse_taken_back(ref: TableRef, timeline: Timeline, after: InstantTime, since: str) -> None:
    """A restore may have taken back what a follower has read already: it must start anew."""
    for restore in timeline:
        if restore.action is not Action.RESTORE or restore.state is State.ABORTED:
            continue
        if restore.is_completed and restore.ended_at <= after:
            continue
        if any(time <= after for time in _find_taken_back(ref, restore)):
            raise TimelineError(
                f"cannot tell what changed since {since}: restore {restore.requested_time} took "
                'back commits from before it; start anew with since="earliest"'
            )


def _find_taken_back(ref: TableRef, restore: Instant) -> list[str]:
    """The instants that a restore took back, or is about to."""
    read = read_metadata if restore.is_completed else read_plan
    match read(ref.env, ref.properties.timeline, restore):
        case RestoreMetadata(instants_to_rollback=times):
            return list(times)
        case RestorePlan(instants_to_rollback=infos):
            return [info.commit_time for info in infos]
    return []
