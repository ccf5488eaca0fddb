"""What a restore takes back, and why it may not.

Pure: facts in, a plan or an error out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hoodoo.errors import InputError, TimelineError, WriterAlive
from hoodoo.model.commit import InstantInfo
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.plans import RestorePlan
from hoodoo.table.timeline import Timeline

log = logging.getLogger("hoodoo.services")


EMPTY_TABLE = InstantTime("00000000000000")
"""What is restored to where no commit stays; Apache Hudi's word for it."""


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """What decides about a restore."""

    timeline: Timeline
    target: Instant | None
    """The commit to go back to; None: to the empty table."""
    alive: Mapping[InstantTime, str] = field(default_factory=dict)
    """Pending instants that somebody is at work on, and who."""
    cleaned_below: InstantTime | None = None
    """Files of views before this commit may be gone."""
    versions_cleaned_at: InstantTime | None = None
    """When files were last deleted by their number of versions: then nobody knows of what views."""
    late_archived: Collection[InstantTime] = ()
    """Archived commits that completed after the target."""


def plan_restore(facts: RestoreFacts) -> RestorePlan:
    """The plan: plans of services first, then commits, newest completion first.

    Raises `WriterAlive`, `TimelineError`.
    """
    if facts.alive:
        who = "; ".join(f"{time}: {text}" for time, text in sorted(facts.alive.items()))
        raise WriterAlive(f"a restore needs the table for itself, and others are at work: {who}")
    undone = [*_find_plans(facts), *_find_commits(facts)]
    _refuse_lost(facts)
    _refuse_saved(facts, undone)
    return RestorePlan(
        instants_to_rollback=tuple(
            InstantInfo(commit_time=instant.requested_time, action=instant.action.value)
            for instant in undone
        ),
        savepoint_to_restore_timestamp=_target_time(facts),
    )


def find_previous(timeline: Timeline, latest: str) -> Instant | None:
    """The commit that the table goes back to when its latest one is taken back.

    Raises `InputError` if it is not the latest one.
    """
    by_completion = sorted(timeline.commits, key=lambda commit: commit.completion_or_requested_time)
    commit = timeline.commits.find(latest)
    if commit is None:
        raise InputError(f"{latest} is not a completed commit of the active timeline")
    later = [
        c.requested_time
        for c in by_completion
        if c.completion_or_requested_time > commit.completion_or_requested_time
    ]
    if later:
        raise InputError(
            f"{latest} is not the latest commit: {', '.join(later[:3])} came after it. Take those "
            "back first, or restore the table to an earlier commit"
        )
    return by_completion[-2] if len(by_completion) > 1 else None


def _find_plans(facts: RestoreFacts) -> Iterator[Instant]:
    """Pending writes and plans that may name what is taken back, newest first."""
    target_completion_time = (
        facts.target.completion_or_requested_time if facts.target else EMPTY_TABLE
    )
    for instant in reversed(facts.timeline.pending.instants):
        is_plan = instant.action.completed_as is not instant.action
        if instant.action.writes_data and (
            instant.requested_time > target_completion_time or not is_plan
        ):
            yield instant


def _find_commits(facts: RestoreFacts) -> Sequence[Instant]:
    target_completion_time = (
        facts.target.completion_or_requested_time if facts.target else EMPTY_TABLE
    )
    later = [
        commit
        for commit in facts.timeline.commits
        if commit.completion_or_requested_time > target_completion_time
    ]
    return sorted(later, key=lambda commit: commit.completion_or_requested_time, reverse=True)


def _refuse_lost(facts: RestoreFacts) -> None:
    """Fail if files or instants are gone without which the table cannot be what it was."""
    time = _target_time(facts)
    savepoint = facts.timeline.find(time, Action.SAVEPOINT)
    if facts.late_archived:
        raise TimelineError(
            f"cannot restore to {time}: {min(facts.late_archived)} completed later, and is archived"
        )
    if savepoint is not None and savepoint.is_completed:
        return
    advice = "; only a savepoint could have kept it"
    if facts.cleaned_below is not None and time < facts.cleaned_below:
        reason = f"only what is needed from {facts.cleaned_below} on was kept by cleaning"
        raise TimelineError(f"cannot restore to {time}: {reason}{advice}")
    cleaned_at = facts.versions_cleaned_at
    if cleaned_at is not None and (
        facts.target is None or facts.target.completion_or_requested_time < cleaned_at
    ):
        raise TimelineError(
            f"cannot restore to {time}: clean {cleaned_at} deleted old versions of files{advice}"
        )


def _refuse_saved(facts: RestoreFacts, undone: Sequence[Instant]) -> None:
    undone_times = {instant.requested_time for instant in undone}
    savepoint_times = [
        s.requested_time for s in facts.timeline.savepoints if s.requested_time in undone_times
    ]
    if savepoint_times:
        raise TimelineError(
            f"savepoints are in the way: {', '.join(savepoint_times)}. "
            "Delete them first, or restore to one"
        )


def _target_time(facts: RestoreFacts) -> InstantTime:
    return facts.target.requested_time if facts.target else EMPTY_TABLE
