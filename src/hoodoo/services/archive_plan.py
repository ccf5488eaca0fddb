"""Which instants leave the active timeline. Pure: facts in, instants out.

Commits leave in the order of their requested times, so that whatever is older than the first one
that stays counts as archived, and thereby as committed. Nothing may leave that somebody still needs
to look up, nor anything above an instant whose files might yet have to be taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.timeline.timeline import Timeline

_PASSING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.INDEXING})
"""What leaves together with the commits around it."""


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What decides about archival."""

    timeline: Timeline
    keep_min: int
    keep_max: int
    ages_ms: Mapping[InstantTime, int]
    """How long ago instants were completed, by the store's clock; absent ones are young."""
    settled_ms: int
    """From this age on, nothing can come late any more."""
    bounds: Collection[InstantTime] = ()
    """Nothing from these times on may leave: unfinished sweeps, targets of rollbacks, and such."""
    passes_savepoints: bool = False


@dataclass(frozen=True, slots=True)
class Leaving:
    """What leaves the active timeline."""

    archived: tuple[Instant, ...] = ()
    """Completed instants, by requested time."""
    dropped: tuple[Instant, ...] = ()
    """Tombstones of plans that were cancelled, of which the history needs not to know."""


def choose_leaving(facts: ArchiveFacts) -> Leaving:
    """What is to be archived now."""
    commits = _choose_commits(facts)
    if not commits:
        return Leaving()
    last = commits[-1].requested_time
    cleans = [i for i in facts.timeline.completed if i.action is Action.CLEAN]
    passing = [
        instant
        for instant in facts.timeline.completed
        if instant.action in _PASSING
        and instant.requested_time < last
        and _is_settled(facts, instant)
        and instant not in cleans[-1:]  # it tells what can still be read
    ]
    dropped = [
        instant
        for instant in facts.timeline
        if instant.state is State.ABORTED and instant.requested_time < last
    ]
    archived = sorted([*commits, *passing], key=lambda instant: instant.requested_time)
    return Leaving(tuple(archived), tuple(dropped))


def _choose_commits(facts: ArchiveFacts) -> list[Instant]:
    timeline, commits = facts.timeline, facts.timeline.commits.instants
    if len(commits) <= facts.keep_max:
        return []
    bound = _find_bound(facts)
    saved = {instant.requested_time for instant in timeline.savepoints}
    chosen: list[Instant] = []
    for commit in commits:
        is_held = commit.requested_time in saved
        if is_held and facts.passes_savepoints:
            continue
        is_above = bound is not None and commit.requested_time >= bound
        if is_held or is_above or not _is_settled(facts, commit):
            break
        if len(commits) - len(chosen) <= facts.keep_min:
            break
        chosen.append(commit)
    return chosen


def _find_bound(facts: ArchiveFacts) -> InstantTime | None:
    """The first time that stays: below it nothing is pending, and there is a commit before that."""
    bounds = set(facts.bounds)
    pending = [i for i in facts.timeline.pending if i.action is not Action.SAVEPOINT]
    if pending:
        first = pending[0].requested_time
        before = [c for c in facts.timeline.commits if c.requested_time < first]
        bounds.add(before[-1].requested_time if before else first)
    return min(bounds, default=None)


def _is_settled(facts: ArchiveFacts, instant: Instant) -> bool:
    return facts.ages_ms.get(instant.requested_time, 0) > facts.settled_ms
