"""Writes of others that are in progress now: who is at work on them, and what they are about.

They are found on the timeline, never by what lies about: markers of instants that have ended mean
nothing. A writer that recovery takes for dead is dead here too, so that nobody gives way to a write
that is about to be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hoodoo.concurrency.conflict import Kind, Mine, Other, Touches, find_conflicts
from hoodoo.concurrency.liveness import Pulse, take_pulses
from hoodoo.concurrency.others import PENDING_KINDS, UnlockedView, load_other, load_others
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import NotFound
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import load_rollback_targets
from hoodoo.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Peer:
    """A write in progress, with the file groups that its workload profile names."""

    other: Other
    pulse: Pulse

    @property
    def time(self) -> InstantTime:
        return self.other.time

    @property
    def owner(self) -> str | None:
        """Who is at work on it, if it tells."""
        return str(self.pulse.body) if self.pulse.body else None

    def touching(self, touches: Touches) -> Peer:
        """The same, with what its markers say."""
        together = dict(self.other.touches)
        for group, how in touches.items():
            together[group] = max(how, together.get(group, how))
        return replace(self, other=replace(self.other, touches=together))

    def if_completed(self) -> Other:
        """What the gate would meet if this write were completed."""
        instant = self.other.instant
        completed = Instant(instant.requested_time, instant.action.completed_as, State.COMPLETED)
        return replace(self.other, instant=completed, owner=self.owner)


def find_writes(timeline: Timeline, *, before: InstantTime | None = None) -> list[Instant]:
    """Pending writes, those requested before a time."""
    return [
        instant
        for instant in timeline.pending
        if PENDING_KINDS.get(instant.action) is Kind.INGESTION
        and (before is None or instant.requested_time < before)
    ]


def find_live_writes(
    ref: TableRef, timeline: Timeline, writes: Iterable[Instant]
) -> dict[InstantTime, Pulse]:
    """Those of these pending writes that somebody is at work on, and that nobody rolls back.

    One without a heartbeat does not count, unlike in recovery: a writer of Apache Hudi's that is
    refused takes its heartbeat away and leaves the rest pending. The gate is there for the others.
    """
    writes = list(writes)
    if not writes:
        return {}
    targets = load_rollback_targets(ref.env, ref.properties.timeline, timeline.pending)
    writes = [instant for instant in writes if instant.requested_time not in targets]
    pulses = take_pulses(ref, writes)
    return {t: pulse for t, pulse in pulses.items() if pulse.has_heartbeat and not pulse.is_dead}


def load_peers(
    ref: TableRef, timeline: Timeline, *, before: InstantTime | None = None
) -> list[Peer]:
    """The writes in progress that were requested before a time: to these a later one gives way.

    Order: pending rollbacks; the probe and heartbeats; the workload profiles of those that live.
    """
    writes = find_writes(timeline, before=before)
    pulses = find_live_writes(ref, timeline, writes)
    peers = []
    for instant in writes:
        if instant.requested_time in pulses:
            try:
                other = load_other(ref.env, ref.properties.timeline, instant)
            except NotFound:  # it has ended just now
                continue
            assert other is not None
            peers.append(Peer(other, pulses[instant.requested_time]))
    return peers


def drop_lost(
    ref: TableRef, timeline: Timeline, strategy: ConflictStrategy, peers: Iterable[Peer]
) -> list[Peer]:
    """Without those that can only be refused: somebody else committed to their file groups.

    A writer of Apache Hudi's that gives way leaves its heartbeat behind, and looks alive for as
    long as that lasts. Whoever gave way to it once the other has committed would do so for nothing.
    Order: metadata of the commits completed since each of them was requested.
    """
    view = UnlockedView(ref.env, ref.properties.timeline, timeline)
    return [peer for peer in peers if not _has_lost(view, strategy, peer)]


def _has_lost(view: UnlockedView, strategy: ConflictStrategy, peer: Peer) -> bool:
    theirs = Mine(peer.time, Kind.INGESTION, peer.other.touches)
    try:
        others = load_others(view, strategy, theirs, view.timeline.ended_until(peer.time))
    except NotFound:  # the timeline has moved on; the next look knows more
        return False
    done = [other for other in others if other.is_completed(Kind.INGESTION)]
    return bool(find_conflicts(strategy, theirs, done))
