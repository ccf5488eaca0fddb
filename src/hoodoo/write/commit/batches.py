"""Which batches of applications are committed, and the guard against committing one twice.

A commit of a batch records the newest batch of its application, under Apache Hudi's key. Those of
hoodoo also repeat, for all other applications, what was known when they were published: a search
for a batch goes back to the last of them, and no further. Commits of Apache Hudi's streaming sink
record their own application alone; table services, and writes that are no batch, record none.
`BatchGuard` asks inside the gate, so of two writers of one batch only one commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hoodoo.concurrency.transactions.transaction import Txn
from hoodoo.errors import FormatError, add_error_source
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import BATCHES_KEY, AppBatch, CommitMetadata
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.paths import TimelinePaths
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_commit

# -- batches in commits -------------------------------------------------------------------------


ALL_KEY = "hoodoo.batches"
"""The key of extra metadata that says that a commit tells of all applications, not only its own."""

Batches = Mapping[str, int]
"""The newest committed batch of each application."""


@dataclass(frozen=True, slots=True)
class CommitBatches:
    """What one completed commit says of batches."""

    requested_time: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata
    batches: Batches

    @property
    def lists_all_apps(self) -> bool:
        return ALL_KEY in self.metadata.extra_metadata


def load_batches(env: Env, timeline_paths: TimelinePaths, timeline: Timeline) -> Batches:
    """The newest batch of each application, among the commits of a timeline and archived ones."""
    return _merge(_walk(env, timeline_paths, timeline))


def load_new_batches(
    env: Env,
    timeline_paths: TimelinePaths,
    timeline: Timeline,
    since: Timeline,
    known_batches: Batches,
) -> Batches:
    """The same, if `known_batches` are those of the timeline `since`: only newer commits are read.

    Archival takes the oldest commits first, and a restore takes commits away: if all of that
    timeline are still there, then so are all that were completed later.
    """
    before = set(since.commits)
    if not before or not before.issubset(timeline.commits):
        return load_batches(env, timeline_paths, timeline)
    newer = timeline.filter(lambda instant: instant not in before)
    return {**known_batches, **_merge(_walk_active(env, timeline_paths, newer))}


def find_batch(
    env: Env, timeline_paths: TimelinePaths, timeline: Timeline, batch: AppBatch
) -> CommitBatches | None:
    """The first commit that says that a batch is committed; None if none says so."""
    first = None
    for commit in _walk(env, timeline_paths, timeline):
        number = commit.batches.get(batch.app)
        if number is not None and number >= batch.number:
            first = commit
        elif number is not None or commit.lists_all_apps:
            break
    return first


def encode_batches(batches: Batches) -> dict[str, str]:
    """Extra metadata of a commit that tells of all batches."""
    texts = {app: str(batches[app]) for app in sorted(batches)}
    return {BATCHES_KEY: json.dumps(texts, separators=(",", ":")), ALL_KEY: "true"}


def decode_batches(extra_metadata: Mapping[str, str]) -> Batches:
    """What a commit says of batches; entries of old versions of Apache Hudi's are no numbers."""
    text = extra_metadata.get(BATCHES_KEY)
    if not text:
        return {}
    try:
        numbers = json.loads(text)
    except ValueError:
        numbers = None
    if not isinstance(numbers, dict):
        raise FormatError(f"{BATCHES_KEY} is not a map in JSON: {text[:100]!r}")
    return {app: int(number) for app, number in numbers.items() if _is_number(number)}


def _is_number(value: object) -> bool:
    return isinstance(value, str | int) and str(value).isascii() and str(value).isdecimal()


def _merge(newest_first: Iterator[CommitBatches]) -> dict[str, int]:
    """What the newest commit that tells of an application says of it, as Apache Hudi reads it."""
    newest: dict[str, int] = {}
    for commit in newest_first:
        newest = {**commit.batches, **newest}
        if commit.lists_all_apps:
            break
    return newest


def _walk(env: Env, timeline_paths: TimelinePaths, timeline: Timeline) -> Iterator[CommitBatches]:
    """Completed commits, newest first, archived ones last; each is read when it is asked for."""
    yield from _walk_active(env, timeline_paths, timeline)
    from hoodoo.table.history import load_history  # imports Arrow, and is rarely needed

    active = {instant.requested_time for instant in timeline.commits}
    past_commits = [
        (instant.completion_time or instant.requested_time, instant)
        for instant in load_history(env, timeline_paths)
        if instant.action.writes_data and instant.requested_time not in active
    ]
    for completion_time, instant in sorted(past_commits, key=lambda pair: pair[0], reverse=True):
        with add_error_source(f"{timeline_paths.history}, {instant.requested_time}"):
            metadata = codec.decode(instant.metadata or b"", instant.action, State.COMPLETED)
            if isinstance(metadata, CommitMetadata):
                batches = decode_batches(metadata.extra_metadata)
                yield CommitBatches(instant.requested_time, completion_time, metadata, batches)


def _walk_active(
    env: Env, timeline_paths: TimelinePaths, timeline: Timeline
) -> Iterator[CommitBatches]:
    newest_first = sorted(
        timeline.commits, key=lambda instant: instant.completion_or_requested_time, reverse=True
    )
    for instant in newest_first:
        metadata = read_commit(env, timeline_paths, instant)
        with add_error_source(instant_path(timeline_paths, instant)):
            batches = decode_batches(metadata.extra_metadata)
        yield CommitBatches(
            instant.requested_time, instant.completion_or_requested_time, metadata, batches
        )


# -- refusing a committed batch -----------------------------------------------------------------


class BatchCommitted(Exception):
    """The batch of this write is committed already: nothing more is to be written."""

    def __init__(self, batch: AppBatch) -> None:
        super().__init__(f"{batch} is committed already")
        self.batch = batch


class BatchGuard:
    """Watches the batch of one write, if it is one; each commit of others is looked at once."""

    def __init__(self, ref: TableRef) -> None:
        """What can be read without the lock is read here. Raises `BatchCommitted`."""
        self._ref = ref
        self._batch = ref.notes.batch
        self._seen = Timeline()
        self._known: Batches = {}
        if self._batch is not None:
            self._seen = ref.load_timeline()
            self._known = load_batches(ref.env, ref.properties.timeline_paths, self._seen)
            self._refuse(self._batch, self._known)

    def refuse_committed(self, txn: Txn) -> Mapping[str, str]:
        """The extra metadata that tells of this batch. Raises `BatchCommitted`.

        Needs: a Txn. Whoever commits the same batch at once is before it in this timeline, or
        moves the head, so that this is asked again.
        """
        if self._batch is None:
            return {}
        batches = load_new_batches(
            txn.env, txn.timeline_paths, txn.timeline, self._seen, self._known
        )
        self._seen, self._known = txn.timeline, batches
        self._refuse(self._batch, batches)
        return encode_batches({**batches, self._batch.app: self._batch.number})

    def _refuse(self, batch: AppBatch, committed_batches: Batches) -> None:
        if batch.number <= committed_batches.get(batch.app, -1):
            raise BatchCommitted(batch)
