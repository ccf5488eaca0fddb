"""Writes of others that are in progress now: who is at work on them, and what they are about.

They are found on the timeline, never by what lies about: markers of instants that have ended mean
nothing. A writer that recovery takes for dead is dead here too, so that nobody gives way to a write
that is about to be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hoodoo.concurrency.conflicts.changes_since import (
    PENDING_KINDS,
    UnlockedTimelineView,
    load_concurrent_instant,
    load_concurrent_instants,
)
from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffects,
    InstantKind,
    PublishingInstant,
    find_conflicts,
)
from hoodoo.concurrency.heartbeats import WriterStatus, load_writer_statuses
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import ObjectNotFound
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, load_rollback_targets


@dataclass(frozen=True, slots=True)
class LiveWrite:
    """A write in progress, with the file groups that its workload profile names."""

    concurrent: ConcurrentInstant
    status: WriterStatus

    @property
    def time(self) -> InstantTime:
        return self.concurrent.time

    @property
    def owner(self) -> str | None:
        """Who is at work on it, if it tells."""
        return str(self.status.body) if self.status.body else None

    def with_marker_effects(self, group_effects: GroupEffects) -> LiveWrite:
        """The same, with what its markers say."""
        together = dict(self.concurrent.group_effects)
        for group, how in group_effects.items():
            together[group] = max(how, together.get(group, how))
        return replace(self, concurrent=replace(self.concurrent, group_effects=together))

    def if_completed(self) -> ConcurrentInstant:
        """What the gate would meet if this write were completed."""
        instant = self.concurrent.instant
        completed_instant = Instant(
            instant.requested_time, instant.action.completed_as, State.COMPLETED
        )
        return replace(self.concurrent, instant=completed_instant, owner=self.owner)


def find_pending_writes(timeline: Timeline, *, before: InstantTime | None = None) -> list[Instant]:
    """Pending writes, those requested before a time."""
    return [
        instant
        for instant in timeline.pending
        if PENDING_KINDS.get(instant.action) is InstantKind.INGESTION
        and (before is None or instant.requested_time < before)
    ]


def find_live_writes(
    ref: TableRef, timeline: Timeline, writes: Iterable[Instant]
) -> dict[InstantTime, WriterStatus]:
    """Those of these pending writes that somebody is at work on, and that nobody rolls back.

    One without a heartbeat does not count, unlike in recovery: a writer of Apache Hudi's that is
    refused takes its heartbeat away and leaves the rest pending. The gate is there for the others.
    """
    writes = list(writes)
    if not writes:
        return {}
    targets = load_rollback_targets(ref.env, ref.properties.timeline_paths, timeline.pending)
    writes = [instant for instant in writes if instant.requested_time not in targets]
    pulses = load_writer_statuses(ref, writes)
    return {t: pulse for t, pulse in pulses.items() if pulse.has_heartbeat and not pulse.is_dead}


def load_live_writes(
    ref: TableRef, timeline: Timeline, *, before: InstantTime | None = None
) -> list[LiveWrite]:
    """The writes in progress that were requested before a time: to these a later one gives way.

    Order: pending rollbacks; the probe and heartbeats; the workload profiles of those that live.
    """
    writes = find_pending_writes(timeline, before=before)
    pulses = find_live_writes(ref, timeline, writes)
    live_writes = []
    for instant in writes:
        if instant.requested_time in pulses:
            try:
                concurrent = load_concurrent_instant(
                    ref.env, ref.properties.timeline_paths, instant
                )
            except ObjectNotFound:  # it has ended just now
                continue
            assert concurrent is not None
            live_writes.append(LiveWrite(concurrent, pulses[instant.requested_time]))
    return live_writes


def drop_losing_writes(
    ref: TableRef, timeline: Timeline, strategy: ConflictStrategy, live_writes: Iterable[LiveWrite]
) -> list[LiveWrite]:
    """Without those that can only be refused: somebody else committed to their file groups.

    A writer of Apache Hudi's that gives way leaves its heartbeat behind, and looks alive for as
    long as that lasts. Whoever gave way to it once the other has committed would do so for nothing.
    Order: metadata of the commits completed since each of them was requested.
    """
    view = UnlockedTimelineView(ref.env, ref.properties.timeline_paths, timeline)
    return [live_write for live_write in live_writes if not _has_lost(view, strategy, live_write)]


def _has_lost(
    view: UnlockedTimelineView, strategy: ConflictStrategy, live_write: LiveWrite
) -> bool:
    theirs = PublishingInstant(
        live_write.time, InstantKind.INGESTION, live_write.concurrent.group_effects
    )
    try:
        concurrent_instants = load_concurrent_instants(
            view, strategy, theirs, view.timeline.completed_by(live_write.time)
        )
    except ObjectNotFound:  # the timeline has moved on; the next look knows more
        return False
    completed_writes = [
        concurrent
        for concurrent in concurrent_instants
        if concurrent.is_completed(InstantKind.INGESTION)
    ]
    return bool(find_conflicts(strategy, theirs, completed_writes))
