"""Early conflict detection: the question of the gate, asked while a write still runs.

Of two writes in progress that touch the same file group, the one that was requested later gives
way. It asks what the gate would say if every older write in progress were completed: the rules are
those of `conflict`, so that nothing counts here that would not count there.

A write announces first and looks then. The older one may announce after the younger one has
looked; so the driver of each write looks again, each period, whatever the strategy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from hoodoo.concurrency.conflict import (
    STRATEGIES,
    Conflict,
    Kind,
    Mine,
    Other,
    Touch,
    find_conflicts,
)
from hoodoo.concurrency.conflict_error import make_conflict_error
from hoodoo.concurrency.group_blooms import GroupBlooms
from hoodoo.concurrency.locks import hold_lock
from hoodoo.concurrency.others import UnlockedView, load_others
from hoodoo.concurrency.peer_markers import PeerMarkers, Wanted
from hoodoo.concurrency.peers import Peer, drop_lost, find_live_writes, load_peers
from hoodoo.config.concurrency import (
    CONCURRENCY_MODE,
    MARKER_TYPE,
    ConcurrencyMode,
    ConflictStrategy,
    MarkerType,
)
from hoodoo.config.early import (
    EARLY_CHECK_COMMIT,
    EARLY_DELAY_MS,
    EARLY_DETECTION,
    EARLY_PERIOD_MS,
    EARLY_STRATEGY,
    DetectionStrategy,
)
from hoodoo.errors import FormatError, StorageError
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.table.ref import TableRef
from hoodoo.timeline.timeline import Timeline

log = logging.getLogger("hoodoo.concurrency")


@dataclass(frozen=True, slots=True)
class Detection:
    """How conflicts are looked for while a write runs."""

    strategy: DetectionStrategy
    checks_commits: bool
    delay_ms: int
    period_ms: int

    @classmethod
    def of(cls, ref: TableRef) -> Detection | None:
        """By the settings of a table; None if nobody looks before the commit."""
        config = ref.config
        if not config.get(EARLY_DETECTION):
            return None
        if config.get(CONCURRENCY_MODE) is ConcurrencyMode.SINGLE_WRITER:
            return None
        strategy = config.get(EARLY_STRATEGY)
        if strategy is None:
            is_batched = config.get(MARKER_TYPE) is MarkerType.BATCHED
            strategy = DetectionStrategy.ASYNC if is_batched else DetectionStrategy.SIMPLE_DIRECT
        return cls(
            strategy,
            config.get(EARLY_CHECK_COMMIT),
            config.get(EARLY_DELAY_MS),
            config.get(EARLY_PERIOD_MS),
        )


def find_early_conflicts(
    strategy: ConflictStrategy, mine: Mine, others: Iterable[Other], peers: Iterable[Peer]
) -> list[Conflict]:
    """What the gate would find if the older writes in progress were completed. Pure."""
    older = [peer.if_completed() for peer in peers if peer.time < mine.time]
    return find_conflicts(strategy, mine, [*others, *older])


def refuse_early(
    ref: TableRef,
    timeline: Timeline,
    strategy: ConflictStrategy,
    mine: Mine,
    others: Sequence[Other],
    peers: Sequence[Peer],
) -> None:
    """Fail if one of these is in the way of mine. Raises `EarlyConflict`.

    `timeline`: where peers in the way are looked up that have lost against somebody else.
    """
    conflicts = find_early_conflicts(strategy, mine, others, peers)
    met = {conflict.other.time for conflict in conflicts}
    in_the_way = [peer for peer in peers if peer.time in met]
    if in_the_way:
        peers = drop_lost(ref, timeline, strategy, in_the_way)
        conflicts = find_early_conflicts(strategy, mine, others, peers)
    if conflicts:
        times = {peer.time for peer in peers}
        error = make_conflict_error(mine, conflicts, in_progress=times, is_early=True)
        log.info("early_conflict time=%s others=%s", mine.time, error.others)
        raise error


class Detector:
    """Looks, again and again, for what an instant in progress would fail on in the gate."""

    def __init__(
        self,
        ref: TableRef,
        mine: Mine,
        strategy: ConflictStrategy,
        detection: Detection,
        *,
        planned_on: Timeline,
    ) -> None:
        self._ref = ref
        self._mine = mine
        self._strategy = strategy
        self._detection = detection
        self._seen = planned_on
        """Whatever was completed by then is not in the way."""
        self._wanted = Wanted.of(mine, STRATEGIES[strategy])
        self._markers = PeerMarkers(ref.env)
        self._blooms = GroupBlooms(ref.env) if detection.strategy.uses_blooms else None
        self.failures = 0
        """How many looks came to nothing because something could not be read."""

    def look(self) -> None:
        """Look once. Raises `EarlyConflict`; what cannot be read is left to the next look.

        Order: timeline; commits completed since the last look; plans of table services; rollbacks,
        heartbeats, profiles and markers of older writes in progress; if one is in the way, commits
        completed since it was requested.
        """
        try:
            self._look()
        except (StorageError, FormatError) as error:
            self.failures += 1
            log.warning(
                "early_look_failed time=%s failures=%d %s", self._mine.time, self.failures, error
            )

    def _look(self) -> None:
        ref, mine = self._ref, self._mine
        now = ref.load_timeline()
        view = UnlockedView(ref.env, ref.properties.timeline, now)
        seen = self._seen if self._detection.checks_commits else now
        others = self._drop_dead(now, load_others(view, self._strategy, mine, seen))
        peers = self._load_peers(now) if mine.kind is Kind.INGESTION else []
        refuse_early(ref, now, self._strategy, mine, others, peers)
        self._seen = now

    def _load_peers(self, now: Timeline) -> list[Peer]:
        peers = []
        for peer in load_peers(self._ref, now, before=self._mine.time):
            time = peer.time
            if self._blooms is None or self._blooms.may_touch(time, self._wanted):
                peers.append(peer.touching(self._markers.find_touches(time, self._wanted)))
        return peers

    def _drop_dead(self, now: Timeline, others: list[Other]) -> list[Other]:
        """Without the pending writes that nobody is at work on any more."""
        writes = [o.instant for o in others if o.is_pending(Kind.INGESTION)]
        if not writes:
            return others
        living = find_live_writes(self._ref, now, writes)
        return [o for o in others if not o.is_pending(Kind.INGESTION) or o.time in living]


@dataclass(frozen=True)
class TaskCheck:
    """What tasks do about conflicts when they announce files; pickles to executors.

    `peers` are the older writes that were in progress when mine began. There are no others, as
    instant times grow; but for engines whose clocks are behind, which the driver finds.
    """

    ref: TableRef
    mine: Mine
    conflict_strategy: ConflictStrategy
    strategy: DetectionStrategy
    peers: tuple[InstantTime, ...]
    _readers: list[tuple[PeerMarkers, GroupBlooms]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[object, ...]:
        parts = self.ref, self.mine, self.conflict_strategy, self.strategy, self.peers
        return TaskCheck, parts

    def announce(self, groups: Collection[FileGroupId], announce: Callable[[], None]) -> None:
        """Have files of these file groups announced, then look. Raises `EarlyConflict`.

        Order: locks of the file groups, if the strategy has them; marker; blooms, if it has them;
        markers of the peers; if one is about these groups, the timeline and its heartbeat.
        """
        planned = [group for group in groups if group in self.mine.touches]
        with ExitStack() as locks:
            if self.strategy.locks_file_groups:
                for group in sorted(planned, key=str):  # in one order, so that none wait in a ring
                    locks.enter_context(hold_lock(self.ref, "announce", group))
            announce()
            if planned:
                self._look(planned)

    def _look(self, groups: Collection[FileGroupId]) -> None:
        mine = replace(
            self.mine,
            touches={group: self.mine.touches[group] for group in groups},
            overwrites=frozenset(),
        )
        markers, blooms = self._make_readers()
        wanted = Wanted.of(mine, STRATEGIES[self.conflict_strategy])
        partitions = sorted({PartitionPath(group.partition) for group in groups})
        touched = {}
        for time in self.peers:
            if not self.strategy.uses_blooms or blooms.may_touch(time, wanted):
                touched[time] = markers.find_touches(time, wanted, partitions)
        if any(touched.values()):
            now = self.ref.load_timeline()
            living = load_peers(self.ref, now, before=mine.time)
            peers = [peer.touching(touched[peer.time]) for peer in living if peer.time in touched]
            refuse_early(self.ref, now, self.conflict_strategy, mine, (), peers)

    def _make_readers(self) -> tuple[PeerMarkers, GroupBlooms]:
        """What was read by this process stays read."""
        if not self._readers:
            env = self.ref.env
            self._readers.append((PeerMarkers(env), GroupBlooms(env)))
        return self._readers[0]


def make_task_check(
    ref: TableRef,
    mine: Mine,
    strategy: ConflictStrategy,
    detection: Detection,
    peers: Iterable[InstantTime],
) -> TaskCheck | None:
    """What tasks of a write have to look for; None if that is nothing.

    New file groups are nobody else's, unless they are buckets.
    """
    may_meet = strategy is ConflictStrategy.BUCKET or any(
        how is not Touch.CREATE for how in mine.touches.values()
    )
    times = tuple(sorted(peers))
    if not times or not may_meet or not detection.strategy.looks_in_tasks:
        return None
    return TaskCheck(ref, mine, strategy, detection.strategy, times)
