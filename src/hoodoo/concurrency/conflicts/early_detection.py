"""Early conflict detection: the question of the gate, asked while a write still runs.

Of two writes in progress that touch the same file group, the one that was requested later gives
way. It asks what the gate would say if every older write in progress were completed: the rules are
those of `conflict`, so that nothing counts here that would not count there.

A write announces first and looks then. The older one may announce after the younger one has
looked; so the driver of each write looks again, each period, whatever the strategy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from hoodoo.concurrency.conflicts.announced_files import GroupBlooms, MarkerFilter, PeerMarkers
from hoodoo.concurrency.conflicts.changes_since import (
    UnlockedTimelineView,
    load_concurrent_instants,
)
from hoodoo.concurrency.conflicts.rules import (
    STRATEGIES,
    ConcurrentInstant,
    Conflict,
    GroupEffect,
    InstantKind,
    PublishingInstant,
    find_conflicts,
    make_conflict_error,
)
from hoodoo.concurrency.conflicts.writes_in_progress import (
    LiveWrite,
    drop_losing_writes,
    find_live_writes,
    load_live_writes,
)
from hoodoo.concurrency.locks.table_lock import hold_lock
from hoodoo.config.concurrency import (
    CONCURRENCY_MODE,
    EARLY_CHECK_COMMIT,
    EARLY_DELAY_MS,
    EARLY_DETECTION,
    EARLY_PERIOD_MS,
    EARLY_STRATEGY,
    MARKER_TYPE,
    ConcurrencyMode,
    ConflictStrategy,
    DetectionStrategy,
    MarkerType,
)
from hoodoo.errors import EarlyConflict, FormatError, StorageError
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.runtime.engine import StopSignal
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline

log = logging.getLogger("hoodoo.concurrency")


@dataclass(frozen=True, slots=True)
class DetectionSettings:
    """How conflicts are looked for while a write runs."""

    strategy: DetectionStrategy
    checks_commits: bool
    delay_ms: int
    period_ms: int

    @classmethod
    def of(cls, ref: TableRef) -> DetectionSettings | None:
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
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    concurrent_instants: Iterable[ConcurrentInstant],
    live_writes: Iterable[LiveWrite],
) -> list[Conflict]:
    """What the gate would find if the older writes in progress were completed. Pure."""
    older = [
        live_write.if_completed() for live_write in live_writes if live_write.time < publishing.time
    ]
    return find_conflicts(strategy, publishing, [*concurrent_instants, *older])


def refuse_early_conflicts(
    ref: TableRef,
    timeline: Timeline,
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    concurrent_instants: Sequence[ConcurrentInstant],
    live_writes: Sequence[LiveWrite],
) -> None:
    """Fail if one of these is in the way of mine. Raises `EarlyConflict`.

    `timeline`: where peers in the way are looked up that have lost against somebody else.
    """
    conflicts = find_early_conflicts(strategy, publishing, concurrent_instants, live_writes)
    conflict_times = {conflict.concurrent.time for conflict in conflicts}
    in_the_way = [live_write for live_write in live_writes if live_write.time in conflict_times]
    if in_the_way:
        live_writes = drop_losing_writes(ref, timeline, strategy, in_the_way)
        conflicts = find_early_conflicts(strategy, publishing, concurrent_instants, live_writes)
    if conflicts:
        times = {live_write.time for live_write in live_writes}
        error = make_conflict_error(publishing, conflicts, in_progress=times, is_early=True)
        log.info("early_conflict time=%s others=%s", publishing.time, error.conflicting_instants)
        raise error


class EarlyConflictDetector:
    """Looks, again and again, for what an instant in progress would fail on in the gate."""

    def __init__(
        self,
        ref: TableRef,
        publishing: PublishingInstant,
        strategy: ConflictStrategy,
        detection: DetectionSettings,
        *,
        planned_on: Timeline,
    ) -> None:
        self._ref = ref
        self._mine = publishing
        self._strategy = strategy
        self._detection = detection
        self._seen = planned_on
        """Whatever was completed by then is not in the way."""
        self._wanted = MarkerFilter.of(publishing, STRATEGIES[strategy])
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
        ref, publishing = self._ref, self._mine
        now = ref.load_timeline()
        view = UnlockedTimelineView(ref.env, ref.properties.timeline_paths, now)
        known_timeline = self._seen if self._detection.checks_commits else now
        concurrent_instants = self._drop_dead(
            now, load_concurrent_instants(view, self._strategy, publishing, known_timeline)
        )
        live_writes = self._load_peers(now) if publishing.kind is InstantKind.INGESTION else []
        refuse_early_conflicts(
            ref, now, self._strategy, publishing, concurrent_instants, live_writes
        )
        self._seen = now

    def _load_peers(self, now: Timeline) -> list[LiveWrite]:
        live_writes = []
        for live_write in load_live_writes(self._ref, now, before=self._mine.time):
            time = live_write.time
            if self._blooms is None or self._blooms.may_touch(time, self._wanted):
                live_writes.append(
                    live_write.with_marker_effects(self._markers.find_touches(time, self._wanted))
                )
        return live_writes

    def _drop_dead(
        self, now: Timeline, concurrent_instants: list[ConcurrentInstant]
    ) -> list[ConcurrentInstant]:
        """Without the pending writes that nobody is at work on any more."""
        writes = [o.instant for o in concurrent_instants if o.is_pending(InstantKind.INGESTION)]
        if not writes:
            return concurrent_instants
        living = find_live_writes(self._ref, now, writes)
        return [
            o
            for o in concurrent_instants
            if not o.is_pending(InstantKind.INGESTION) or o.time in living
        ]


@dataclass(frozen=True)
class TaskConflictCheck:
    """What tasks do about conflicts when they announce files; pickles to executors.

    `peers` are the older writes that were in progress when mine began. There are no others, as
    instant times grow; but for engines whose clocks are behind, which the driver finds.
    """

    ref: TableRef
    publishing: PublishingInstant
    conflict_strategy: ConflictStrategy
    strategy: DetectionStrategy
    peers: tuple[InstantTime, ...]
    _readers: list[tuple[PeerMarkers, GroupBlooms]] = field(
        default_factory=list, init=False, compare=False, repr=False
    )

    def __reduce__(self) -> tuple[object, ...]:
        parts = self.ref, self.publishing, self.conflict_strategy, self.strategy, self.peers
        return TaskConflictCheck, parts

    def announce(self, groups: Collection[FileGroupId], announce: Callable[[], None]) -> None:
        """Have files of these file groups announced, then look. Raises `EarlyConflict`.

        Order: locks of the file groups, if the strategy has them; marker; blooms, if it has them;
        markers of the peers; if one is about these groups, the timeline and its heartbeat.
        """
        planned_groups = [group for group in groups if group in self.publishing.group_effects]
        with ExitStack() as locks:
            if self.strategy.locks_file_groups:
                for group in sorted(
                    planned_groups, key=str
                ):  # in one order, so that none wait in a ring
                    locks.enter_context(hold_lock(self.ref, "announce", group))
            announce()
            if planned_groups:
                self._look(planned_groups)

    def _look(self, groups: Collection[FileGroupId]) -> None:
        publishing = replace(
            self.publishing,
            group_effects={group: self.publishing.group_effects[group] for group in groups},
            overwrites=frozenset(),
        )
        markers, blooms = self._make_readers()
        marker_filter = MarkerFilter.of(publishing, STRATEGIES[self.conflict_strategy])
        partitions = sorted({PartitionPath(group.partition) for group in groups})
        effects_by_write = {}
        for time in self.peers:
            if not self.strategy.uses_blooms or blooms.may_touch(time, marker_filter):
                effects_by_write[time] = markers.find_touches(time, marker_filter, partitions)
        if any(effects_by_write.values()):
            now = self.ref.load_timeline()
            living = load_live_writes(self.ref, now, before=publishing.time)
            live_writes = [
                live_write.with_marker_effects(effects_by_write[live_write.time])
                for live_write in living
                if live_write.time in effects_by_write
            ]
            refuse_early_conflicts(
                self.ref, now, self.conflict_strategy, publishing, (), live_writes
            )

    def _make_readers(self) -> tuple[PeerMarkers, GroupBlooms]:
        """What was read by this process stays read."""
        if not self._readers:
            env = self.ref.env
            self._readers.append((PeerMarkers(env), GroupBlooms(env)))
        return self._readers[0]


def make_task_check(
    ref: TableRef,
    publishing: PublishingInstant,
    strategy: ConflictStrategy,
    detection: DetectionSettings,
    peers: Iterable[InstantTime],
) -> TaskConflictCheck | None:
    """What tasks of a write have to look for; None if that is nothing.

    New file groups are nobody else's, unless they are buckets.
    """
    may_meet = strategy is ConflictStrategy.BUCKET or any(
        how is not GroupEffect.CREATE for how in publishing.group_effects.values()
    )
    times = tuple(sorted(peers))
    if not times or not may_meet or not detection.strategy.looks_in_tasks:
        return None
    return TaskConflictCheck(ref, publishing, strategy, detection.strategy, times)


@contextmanager
def watch(
    ref: TableRef, detector: EarlyConflictDetector, detection: DetectionSettings, stop: StopSignal
) -> Iterator[None]:
    """Look each period while the block runs, and request its end when a conflict is found."""
    clock = ref.env.clock
    due = clock.monotonic() + detection.delay_ms / 1000

    def step() -> None:
        if clock.monotonic() < due:
            return
        try:
            detector.look()
        except EarlyConflict as conflict:
            stop.request(conflict)

    timer = clock.every(detection.period_ms, step)
    try:
        yield
    finally:
        timer.stop()
