"""Which actions of a table did not write a partition of its metadata table that is being built.

Writers that know the head ask inside the gate which partitions there are, so all of their actions
that ended after the partition was listed have written it. An engine that knows no head may have
asked when its write began: what it left out is written before the partition is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodoo.metadata.delta_commits import COVERED_KEY
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.index_build import IndexBuild
from hoodoo.model.instant import Action, Instant, InstantTime

CAUGHT_UP_KEY = "hoodoo.caught.up"
"""Where a delta commit says for which actions it makes up, in the partitions that it covers."""


def find_later(build: IndexBuild, instants: Iterable[Instant]) -> list[Instant]:
    """Completed actions with files that ended after the build was planned, in the order of that."""
    later = [
        instant
        for instant in instants
        if instant.is_completed
        and (instant.action.writes_data or instant.action is Action.CLEAN)
        and not build.has_seen(instant)
    ]
    return sorted(later, key=lambda instant: instant.ended_at)


def find_uncovered(
    build: IndexBuild,
    instants: Iterable[Instant],
    written: Mapping[InstantTime, CommitMetadata],
) -> list[Instant]:
    """The later actions that did not write the partition; `written` are delta commits by time."""
    caught_up = {
        time
        for commit in written.values()
        if build.partition in covered_partitions(commit)
        for time in commit.extra_metadata.get(CAUGHT_UP_KEY, "").split(",")
    }
    return [
        instant
        for instant in find_later(build, instants)
        if instant.requested_time not in caught_up
        and not _covers(written.get(instant.requested_time), build.partition)
    ]


def covered_partitions(commit: CommitMetadata) -> frozenset[str]:
    """The partitions that a delta commit looked at; another engine's: those that it wrote to."""
    note = commit.extra_metadata.get(COVERED_KEY)
    if note is not None:
        return frozenset(note.split(","))
    return frozenset(commit.partition_to_write_stats)


def _covers(commit: CommitMetadata | None, partition: str) -> bool:
    return commit is not None and partition in covered_partitions(commit)
