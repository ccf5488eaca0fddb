"""`Timeline`: the instants of a table at one moment, as an immutable value to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.slices import Visibility


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
            known = highest.get(key)
            if known is None or _progress(instant) > _progress(known):
                highest[key] = instant
        ordered = sorted(highest.values(), key=lambda i: (i.requested_time, i.action.value))
        return cls(tuple(ordered))

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def where(self, keep: Callable[[Instant], bool]) -> Timeline:
        return Timeline(tuple(instant for instant in self.instants if keep(instant)))

    def find(self, requested_time: str, action: Action | None = None) -> Instant | None:
        """The instant requested at this time; a savepoint shares its commit's time and yields.

        With an action, the one that completes as this action does.
        """
        if action is Action.SAVEPOINT:
            return next((i for i in self.savepoints if i.requested_time == requested_time), None)
        found = self._by_requested.get(InstantTime(requested_time))
        if action is None or found is None:
            return found
        return found if found.action.completed_as is action.completed_as else None

    @cached_property
    def _by_requested(self) -> dict[InstantTime, Instant]:
        by_time: dict[InstantTime, Instant] = {}
        for instant in self.instants:
            if instant.action is not Action.SAVEPOINT or instant.requested_time not in by_time:
                by_time[instant.requested_time] = instant
        return by_time

    @cached_property
    def completed(self) -> Timeline:
        return self.where(lambda instant: instant.is_completed)

    @cached_property
    def pending(self) -> Timeline:
        return self.where(lambda instant: instant.is_pending)

    @cached_property
    def commits(self) -> Timeline:
        """Completed instants that add or replace data files."""
        return self.where(lambda instant: instant.is_completed and instant.action.writes_data)

    @cached_property
    def savepoints(self) -> Timeline:
        """Savepoints, completed or not."""
        return self.where(lambda instant: instant.action is Action.SAVEPOINT)

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
    def start(self) -> InstantTime | None:
        """Requested time of the first write that is still here; earlier ones are archived.

        Archival may pass over commits with savepoints: those say nothing about what is below them.
        """
        writes = [
            i.requested_time
            for i in self.instants
            if i.action.writes_data and i.state is not State.ABORTED
        ]
        saved = {instant.requested_time for instant in self.savepoints}
        return next((time for time in writes if time not in saved), writes[0] if writes else None)

    def as_of(self, time: InstantTime) -> Timeline:
        """The timeline with nothing requested after `time` (time travel)."""
        return self.where(lambda instant: instant.requested_time <= time)

    def ended_until(self, time: InstantTime) -> Timeline:
        """The timeline with nothing completed after `time` (the end of an incremental read)."""
        return self.where(lambda instant: instant.ended_at <= time)

    def visibility(
        self, *, start: InstantTime | None, until: InstantTime | None = None
    ) -> Visibility:
        """What a reader of this timeline sees; `start` is that of the whole active timeline."""
        completions = {i.requested_time: i.ended_at for i in self.completed}
        return Visibility(completions, archived_before=start, until=until)


def _progress(instant: Instant) -> tuple[int, str]:
    return instant.state.rank, instant.completion_time or ""
