"""`Timeline`: the instants of a table at one moment; how it is read; moments and instant times.

Reading the active timeline lists names first, and reads contents only on request. Moments and
instant times are translated here alone, by the table's zone. A moment is in milliseconds since
1970; an instant time is what a wall clock showed in the zone of the table. In a zone with summer
time, an hour comes twice in autumn and one is missing in spring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from hoodoo.errors import FormatError, ObjectNotFound, add_error_source
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import instant as instants
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.files import Visibility
from hoodoo.model.instant import Action, Instant, InstantTime, State, TimelineZone, to_wall_ms
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.plans import RestorePlan, RollbackPlan
from hoodoo.runtime.env import Clock, Env
from hoodoo.storage.storage import ObjectInfo

# -- the timeline as a value -----------------------------------------------------------------------


@dataclass(frozen=True)
class Timeline:
    """Instants sorted by requested time, each in the highest state it reached."""

    instants: tuple[Instant, ...] = ()

    @classmethod
    def of(cls, instants: Iterable[Instant]) -> Timeline:
        """Collapse the files of each instant into one instant.

        A compaction completes as a commit, so actions are compared by what they complete as. Of
        several completed files, of which all but one came late, the last one counts.
        """
        highest: dict[tuple[InstantTime, Action], Instant] = {}
        for instant in instants:
            key = (instant.requested_time, instant.action.completed_as)
            previous = highest.get(key)
            if previous is None or _progress(instant) > _progress(previous):
                highest[key] = instant
        newest_states = sorted(highest.values(), key=lambda i: (i.requested_time, i.action.value))
        return cls(tuple(newest_states))

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def filter(self, keep: Callable[[Instant], bool]) -> Timeline:
        return Timeline(tuple(instant for instant in self.instants if keep(instant)))

    def find(self, requested_time: str, action: Action | None = None) -> Instant | None:
        """The instant requested at this time; a savepoint shares its commit's time and yields.

        With an action, the one that completes as this action does.
        """
        if action is Action.SAVEPOINT:
            return next((i for i in self.savepoints if i.requested_time == requested_time), None)
        instant = self._by_requested.get(InstantTime(requested_time))
        if action is None or instant is None:
            return instant
        return instant if instant.action.completed_as is action.completed_as else None

    @cached_property
    def _by_requested(self) -> dict[InstantTime, Instant]:
        by_time: dict[InstantTime, Instant] = {}
        for instant in self.instants:
            if instant.action is not Action.SAVEPOINT or instant.requested_time not in by_time:
                by_time[instant.requested_time] = instant
        return by_time

    @cached_property
    def completed(self) -> Timeline:
        return self.filter(lambda instant: instant.is_completed)

    @cached_property
    def pending(self) -> Timeline:
        return self.filter(lambda instant: instant.is_pending)

    @cached_property
    def commits(self) -> Timeline:
        """Completed instants that add or replace data files."""
        return self.filter(lambda instant: instant.is_completed and instant.action.writes_data)

    @cached_property
    def savepoints(self) -> Timeline:
        """Savepoints, completed or not."""
        return self.filter(lambda instant: instant.action is Action.SAVEPOINT)

    @property
    def latest_commit(self) -> Instant | None:
        return self.commits.instants[-1] if self.commits.instants else None

    @cached_property
    def newest_time(self) -> InstantTime | None:
        """The latest requested or completion time that anything here has."""
        times = [instant.requested_time for instant in self.instants]
        times += [i.completion_time for i in self.instants if i.completion_time is not None]
        return max(times, default=None)

    @cached_property
    def oldest_active_write(self) -> InstantTime | None:
        """Requested time of the first write that is still here; earlier ones are archived.

        Archival may pass over commits with savepoints: those say nothing about what is below them.
        """
        writes = [
            i.requested_time
            for i in self.instants
            if i.action.writes_data and i.state is not State.ABORTED
        ]
        savepoint_times = {instant.requested_time for instant in self.savepoints}
        return next(
            (time for time in writes if time not in savepoint_times), writes[0] if writes else None
        )

    def as_of(self, time: InstantTime) -> Timeline:
        """The timeline with nothing requested after `time` (time travel)."""
        return self.filter(lambda instant: instant.requested_time <= time)

    def completed_by(self, time: InstantTime) -> Timeline:
        """The timeline with nothing completed after `time` (the end of an incremental read)."""
        return self.filter(lambda instant: instant.completion_or_requested_time <= time)

    def visibility(
        self, *, start: InstantTime | None, until: InstantTime | None = None
    ) -> Visibility:
        """What a reader of this timeline sees; `start` is that of the whole active timeline."""
        completions = {i.requested_time: i.completion_or_requested_time for i in self.completed}
        return Visibility(completions, archived_before=start, until=until)


def _progress(instant: Instant) -> tuple[int, str]:
    return instant.state.rank, instant.completion_time or ""


# -- reading the active timeline -------------------------------------------------------------------


# A write reads the timeline several times, and the next write reads nearly the same again.
_parse_once = lru_cache(maxsize=1 << 16)(parse_instant)


def load_timeline(env: Env, timeline_paths: TimelinePaths) -> Timeline:
    """The active timeline as it is now: one listing, no file is read."""
    while True:
        states = parse_states(env.storage.list(timeline_paths.active), timeline_paths)
        oldest = _find_shrinking_end(states)
        if oldest is None or env.storage.exists(instant_path(timeline_paths, oldest)):
            return Timeline.of(states)


def parse_states(entries: Iterable[ObjectInfo], timeline_paths: TimelinePaths) -> list[Instant]:
    """Every file of the active timeline in a listing: each instant in each of its states."""
    states = []
    for entry in entries:
        directory, _, name = entry.path.rpartition("/")
        instant = (
            _parse_once(name, layout=timeline_paths.layout)
            if directory == timeline_paths.active
            else None
        )
        if instant is not None:
            states.append(instant)
    return states


def _find_shrinking_end(states: Iterable[Instant]) -> Instant | None:
    """The oldest commit, if others of its files are gone: then someone archives, or has.

    Archival deletes pending files first, then completed ones, oldest first. So a listing that
    misses one of those and still has an older one was under way meanwhile, and then the oldest
    that it has is gone by now.
    """
    commits = (i for i in states if i.is_completed and i.action.writes_data)
    oldest = min(commits, key=lambda i: i.requested_time, default=None)
    if oldest is None or any(
        i.is_pending and i.requested_time == oldest.requested_time for i in states
    ):
        return None
    return oldest


def instant_path(timeline_paths: TimelinePaths, instant: Instant) -> str:
    """Where the file of an instant in its state lives."""
    return f"{timeline_paths.active}/{instant_name(instant, layout=timeline_paths.layout)}"


def read_metadata(
    env: Env, timeline_paths: TimelinePaths, instant: Instant
) -> codec.Metadata | None:
    """What the file of an instant says, or None where it is empty by design."""
    path = instant_path(timeline_paths, instant)
    data = env.storage.read(path)
    with add_error_source(path):
        return codec.decode(data, instant.action, instant.state)


def read_plan(env: Env, timeline_paths: TimelinePaths, instant: Instant) -> codec.Metadata | None:
    """What an instant, however far it got, was asked to do: what its requested file says."""
    return read_metadata(env, timeline_paths, replace(instant, state=State.REQUESTED))


def load_rollback_targets(
    env: Env, timeline_paths: TimelinePaths, pending: Iterable[Instant]
) -> dict[InstantTime, InstantTime]:
    """What rollbacks and restores among these pending instants are about: instant -> rollback."""
    targets = {}
    for rollback in pending:
        if rollback.action in (Action.ROLLBACK, Action.RESTORE):
            match read_plan(env, timeline_paths, rollback):
                case RollbackPlan(instant_to_rollback=info) if info is not None:
                    targets[InstantTime(info.commit_time)] = rollback.requested_time
                case RestorePlan(instants_to_rollback=infos):
                    times = (InstantTime(info.commit_time) for info in infos)
                    targets |= dict.fromkeys(times, rollback.requested_time)
    return targets


def read_commit(env: Env, timeline_paths: TimelinePaths, instant: Instant) -> CommitMetadata:
    """The metadata of a completed commit, delta commit or replace commit, archived or not."""
    try:
        metadata = read_metadata(env, timeline_paths, instant)
    except ObjectNotFound:
        metadata = _read_archived(env, timeline_paths, instant)
        if metadata is None:
            raise
    if not isinstance(metadata, CommitMetadata):
        raise FormatError("no commit metadata in it", source=instant_path(timeline_paths, instant))
    return metadata


def _read_archived(
    env: Env, timeline_paths: TimelinePaths, instant: Instant
) -> codec.Metadata | None:
    """What an instant said that was archived since the caller saw it; None if it is gone."""
    from hoodoo.table.history import load_history  # imports Arrow, and is rarely needed

    time = instant.requested_time
    for entry in load_history(env, timeline_paths, since=time):
        if entry.requested_time == time and entry.action is instant.action.completed_as:
            with add_error_source(f"{timeline_paths.history}, {instant}"):
                return codec.decode(entry.metadata or b"", entry.action, State.COMPLETED)
    return None


# -- moments and instant times ---------------------------------------------------------------------


_DAY_MS = 24 * 3_600_000


def wall_ms(clock: Clock, zone: TimelineZone, epoch_ms: int) -> int:
    """What a wall clock in the zone shows at a moment."""
    return clock.local_ms(epoch_ms) if zone is TimelineZone.LOCAL else epoch_ms


def now_wall_ms(clock: Clock, zone: TimelineZone) -> int:
    """What a wall clock in the zone shows now."""
    return wall_ms(clock, zone, clock.now_ms())


def moment_of(clock: Clock, zone: TimelineZone, time: InstantTime) -> int:
    """The moment of an instant time; of two, the first; `InputError` if it is no calendar time.

    Where `LOCAL` was another process's zone, this is off by the difference.
    """
    reading = to_wall_ms(time)
    # The offset is the one before or the one after the nearest change of clocks.
    around = (reading - _DAY_MS, reading + _DAY_MS)
    moments = sorted({reading - (wall_ms(clock, zone, at) - at) for at in around})
    for moment in moments:
        if wall_ms(clock, zone, moment) == reading:
            return moment
    return moments[-1]  # in the missing hour: as if clocks had not changed yet


def time_of(clock: Clock, zone: TimelineZone, epoch_ms: int) -> InstantTime:
    """The instant time of a moment; an hour that comes twice has the same times both times."""
    return instants.from_wall_ms(wall_ms(clock, zone, epoch_ms))


def parse_moment(clock: Clock, zone: TimelineZone, text: str) -> InstantTime:
    """The instant time of what a user typed; ISO times without an offset are in the zone."""
    return instants.parse_moment(text, wall_ms=partial(wall_ms, clock, zone))
