"""Keys of early conflict detection: whether, how and how often writes in progress are compared."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, integer, one_of


class DetectionStrategy(Enum):
    """Who looks for conflicts while a write runs, and what is read first."""

    TRANSACTIONAL_DIRECT = "transactional_direct"
    SIMPLE_DIRECT = "simple_direct"
    BLOOM_DIRECT = "bloom_direct"
    ASYNC = "async"
    BLOOM_ASYNC = "bloom_async"

    @property
    def looks_in_tasks(self) -> bool:
        """Whether each task looks when it announces a file; the driver looks in any case."""
        return self not in (DetectionStrategy.ASYNC, DetectionStrategy.BLOOM_ASYNC)

    @property
    def locks_file_groups(self) -> bool:
        """Whether announcing and looking is done under a lock of the file group."""
        return self is DetectionStrategy.TRANSACTIONAL_DIRECT

    @property
    def uses_blooms(self) -> bool:
        """Whether a Bloom filter of another write's file groups is asked before its markers."""
        return self in (DetectionStrategy.BLOOM_DIRECT, DetectionStrategy.BLOOM_ASYNC)


_CLASS_NAMES = {
    "SimpleTransactionDirectMarkerBasedEarlyConflictDetectionStrategy": (
        DetectionStrategy.TRANSACTIONAL_DIRECT
    ),
    "SimpleTransactionDirectMarkerBasedDetectionStrategy": DetectionStrategy.TRANSACTIONAL_DIRECT,
    "SimpleDirectMarkerBasedEarlyConflictDetectionStrategy": DetectionStrategy.SIMPLE_DIRECT,
    "SimpleDirectMarkerBasedDetectionStrategy": DetectionStrategy.SIMPLE_DIRECT,
    "BloomDirectMarkerBasedEarlyConflictDetectionStrategy": DetectionStrategy.BLOOM_DIRECT,
    "AsyncTimelineMarkerEarlyConflictDetectionStrategy": DetectionStrategy.ASYNC,
    "AsyncTimelineServerBasedDetectionStrategy": DetectionStrategy.ASYNC,
    "BloomAsyncTimelineMarkerEarlyConflictDetectionStrategy": DetectionStrategy.BLOOM_ASYNC,
}

EARLY_DETECTION = Key(
    "hoodie.write.concurrency.early.conflict.detection.enable",
    boolean,
    True,
    "A write that touches the same file groups as an older one in progress stops while it runs, "
    "not when it commits.",
    aliases=("hoodie.write.lock.early.conflict.detection.enable",),
)
EARLY_STRATEGY: Key[DetectionStrategy | None] = Key(
    "hoodie.write.concurrency.early.conflict.detection.strategy",
    one_of(DetectionStrategy, **_CLASS_NAMES),
    None,
    "transactional_direct, simple_direct, bloom_direct, async or bloom_async; class names of the "
    "design and of Apache Hudi work too. Unless set: simple_direct, or async if markers are "
    "timeline_server_based.",
    aliases=("hoodie.write.lock.early.conflict.detection.strategy",),
)
EARLY_CHECK_COMMIT = Key(
    "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    boolean,
    True,
    "Early detection also looks at commits that were completed since the write was planned.",
    aliases=("hoodie.write.lock.early.conflict.check.commit",),
)
EARLY_DELAY_MS = Key(
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms",
    integer(0),
    0,
    "How long after its begin the driver of a write looks for conflicts for the first time; 0: in "
    "the transaction that begins it.",
    aliases=("hoodie.write.lock.early.conflict.async.checker.batch.interval",),
)
EARLY_PERIOD_MS = Key(
    "hoodie.write.concurrency.async.conflict.detector.period_ms",
    integer(100),
    30_000,
    "How often the driver of a write looks again.",
    aliases=("hoodie.write.lock.early.conflict.async.checker.period",),
)
