"""Keys of many writers on one table: locks, heartbeats, markers, conflicts, failed writes.

Early conflict detection compares writes in progress. The marker server collects the markers of a
write in the Spark driver.
"""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, integer, one_of, optional_text, text

# -- locks, heartbeats, failed writes --------------------------------------------------------------


class LockProvider(Enum):
    """What keeps writers apart while they publish."""

    STORAGE = "storage"
    FILESYSTEM = "filesystem"
    ZOOKEEPER = "zookeeper"
    ZOOKEEPER_IMPLICIT = "zookeeper_implicit_base_path"
    IN_PROCESS = "in_process"


class ConflictStrategy(Enum):
    """Which writes that happened meanwhile stop a write from publishing."""

    SIMPLE = "simple"
    PREFER_WRITER = "prefer_writer"
    BUCKET = "bucket"


class ConcurrencyMode(Enum):
    """How Apache Hudi names its modes; hoodoo always checks for conflicts at commit."""

    SINGLE_WRITER = "single_writer"
    OPTIMISTIC = "optimistic_concurrency_control"
    NON_BLOCKING = "non_blocking_concurrency_control"


class FailedWrites(Enum):
    """When writes whose writer died are rolled back."""

    EAGER = "eager"
    LAZY = "lazy"
    NEVER = "never"


class MarkerType(Enum):
    """How a write announces its data files before it makes them."""

    DIRECT = "direct"
    BATCHED = "timeline_server_based"


LOCK_PROVIDER = Key(
    "hoodie.write.lock.provider",
    one_of(
        LockProvider,
        "DynamoDBBasedLockProvider",
        "DynamoDBBasedImplicitPartitionKeyLockProvider",
        "HiveMetastoreBasedLockProvider",
        "NoopLockProvider",
        StorageBasedLockProvider=LockProvider.STORAGE,
        FileSystemBasedLockProvider=LockProvider.FILESYSTEM,
        ZookeeperBasedLockProvider=LockProvider.ZOOKEEPER,
        ZookeeperBasedImplicitBasePathLockProvider=LockProvider.ZOOKEEPER_IMPLICIT,
        InProcessLockProvider=LockProvider.IN_PROCESS,
    ),
    LockProvider.STORAGE,
    "storage, filesystem, zookeeper, zookeeper_implicit_base_path or in_process; "
    "Java class names of Apache Hudi work too.",
)
LOCK_WAIT_MS = Key(
    "hoodie.write.lock.wait_time_ms",
    integer(0),
    120_000,
    "How long to wait for the table's lock; long enough to outlive a holder that died.",
)
LOCK_POLL_MS = Key(
    "hoodie.write.lock.wait_time_ms_between_retry",
    integer(1),
    50,
    "Longest pause between two looks at a lock that someone else holds.",
)
LEASE_VALIDITY_S = Key(
    "hoodie.write.lock.storage.validity.timeout.secs",
    integer(2),
    60,
    "How long a lease of the storage or filesystem lock lasts unless it is renewed.",
)
LEASE_RENEW_S = Key(
    "hoodie.write.lock.storage.renew.interval.secs",
    integer(1),
    6,
    "How often a held lease is renewed.",
    aliases=("hoodie.write.lock.storage.heartbeat.poll.secs",),
)
LOCK_DIRECTORY = Key(
    "hoodie.write.lock.filesystem.path",
    text,
    ".hoodie",
    "Directory of the filesystem lock, relative to the table.",
)
FOREIGN_LOCK_EXPIRES_MIN = Key(
    "hoodie.write.lock.filesystem.expire",
    integer(0),
    0,
    "Minutes after which a filesystem lock that Apache Hudi left is taken over; 0 is never.",
)
ZOOKEEPER_URL = Key(
    "hoodie.write.lock.zookeeper.url", optional_text, None, "Hosts of ZooKeeper, by commas."
)
ZOOKEEPER_PORT = Key(
    "hoodie.write.lock.zookeeper.port",
    integer(1, 65_535),
    2181,
    "Port of hosts that name none.",
)
ZOOKEEPER_BASE_PATH = Key(
    "hoodie.write.lock.zookeeper.base_path", optional_text, None, "Where lock nodes live."
)
ZOOKEEPER_LOCK_KEY = Key(
    "hoodie.write.lock.zookeeper.lock_key",
    optional_text,
    None,
    "Name of the table's lock below the base path; the table's name if not set.",
)
ZOOKEEPER_SESSION_MS = Key(
    "hoodie.write.lock.zookeeper.session_timeout_ms",
    integer(1),
    60_000,
    "How long ZooKeeper keeps the locks of a process that fell silent.",
)
ZOOKEEPER_CONNECTION_MS = Key(
    "hoodie.write.lock.zookeeper.connection_timeout_ms",
    integer(1),
    15_000,
    "How long to wait for a connection to ZooKeeper.",
)
CONCURRENCY_MODE = Key(
    "hoodie.write.concurrency.mode",
    one_of(ConcurrencyMode),
    ConcurrencyMode.OPTIMISTIC,
    "single_writer or optimistic_concurrency_control; hoodoo checks for conflicts in both.",
)
CONFLICT_STRATEGY = Key(
    "hoodie.write.lock.conflict.resolution.strategy",
    one_of(
        ConflictStrategy,
        SimpleConcurrentFileWritesConflictResolutionStrategy=ConflictStrategy.SIMPLE,
        PreferWriterConflictResolutionStrategy=ConflictStrategy.PREFER_WRITER,
        BucketIndexConcurrentFileWritesConflictResolutionStrategy=ConflictStrategy.BUCKET,
    ),
    ConflictStrategy.SIMPLE,
    "simple, prefer_writer or bucket; Java class names of Apache Hudi work too.",
)
CONFLICT_RETRIES = Key(
    "hoodie.write.num.retries.on.conflict.failures",
    integer(0),
    0,
    "How often a write that met a conflict is run again, on the table as it is then.",
)
KEY_GUARD = Key(
    "hoodie.write.concurrency.key.guard.enable",
    boolean,
    True,
    "An upsert that inserts a key which another write inserted meanwhile is a conflict; false: the "
    "key may then be there twice.",
)
HEARTBEAT_INTERVAL_MS = Key(
    "hoodie.client.heartbeat.interval_in_ms",
    integer(1000),
    60_000,
    "How often a writer shows that it lives.",
)
HEARTBEAT_MISSES = Key(
    "hoodie.client.heartbeat.tolerable.misses",
    integer(1),
    10,
    "A writer silent for this many intervals is dead.",
)
FAILED_WRITES = Key(
    "hoodie.clean.failed.writes.policy",
    one_of(FailedWrites),
    FailedWrites.EAGER,
    "eager: each write first rolls back dead ones; lazy: only recover and clean do; never.",
    aliases=("hoodie.cleaner.policy.failed.writes",),
)
MARKER_TYPE = Key(
    "hoodie.write.markers.type",
    one_of(MarkerType, batched=MarkerType.BATCHED),
    MarkerType.DIRECT,
    "direct: one marker file per data file; timeline_server_based: batches of markers.",
)


# -- early conflict detection ----------------------------------------------------------------------


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


# -- the marker server -----------------------------------------------------------------------------


MARKER_SERVER = Key(
    "hoodie.embed.timeline.server",
    boolean,
    True,
    "Batched markers on Spark are collected by a server in the driver; false: each task writes "
    "batches of its own.",
)
MARKER_SERVER_PORT = Key(
    "hoodie.embed.timeline.server.port",
    integer(0, 65_535),
    0,
    "Port of the marker server in the driver; 0 is any free one.",
)
MARKER_INTERVAL_MS = Key(
    "hoodie.markers.timeline_server_based.batch.interval_ms",
    integer(1),
    50,
    "Longest time that a marker waits before the marker server begins to write its batch.",
)
MARKER_FILES = Key(
    "hoodie.markers.timeline_server_based.batch.num_threads",
    integer(1, 1000),
    20,
    "Most batch files that the marker server makes for a write, and so its writes under way.",
)
