"""Which batches of applications are committed, as the commits themselves say.

A commit of a batch says the newest batch of its application, under Apache Hudi's key. Those of
hoodoo also repeat, for all other applications, what was known when they were published: whoever
looks for a batch goes back to the last of them, and no further. Commits of Apache Hudi's streaming
sink tell of their own application alone; table services, and writes that are no batch, of none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hoodoo.env import Env
from hoodoo.errors import FormatError, naming
from hoodoo.format import timeline as codec
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.commit_notes import BATCHES_KEY, Batch
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.load import instant_path, read_commit
from hoodoo.timeline.timeline import Timeline

ALL_KEY = "hoodoo.batches"
"""The key of extra metadata that says that a commit tells of all applications, not only its own."""

Batches = Mapping[str, int]
"""The newest committed batch of each application."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one completed commit says of batches."""

    requested_time: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata
    batches: Batches

    @property
    def tells_all(self) -> bool:
        return ALL_KEY in self.metadata.extra_metadata


def load_batches(env: Env, paths: TimelinePaths, timeline: Timeline) -> Batches:
    """The newest batch of each application, among the commits of a timeline and archived ones."""
    return _merge(_walk(env, paths, timeline))


def load_new_batches(
    env: Env, paths: TimelinePaths, timeline: Timeline, since: Timeline, known: Batches
) -> Batches:
    """The same, if `known` are those of the timeline `since`: only newer commits are read.

    Archival takes the oldest commits first, and a restore takes commits away: if all of that
    timeline are still there, then so are all that were completed later.
    """
    before = set(since.commits)
    if not before or not before.issubset(timeline.commits):
        return load_batches(env, paths, timeline)
    newer = timeline.where(lambda instant: instant not in before)
    return {**known, **_merge(_walk_active(env, paths, newer))}


def find_batch(env: Env, paths: TimelinePaths, timeline: Timeline, batch: Batch) -> Told | None:
    """The first commit that says that a batch is committed; None if none says so."""
    first = None
    for told in _walk(env, paths, timeline):
        number = told.batches.get(batch.app)
        if number is not None and number >= batch.number:
            first = told
        elif number is not None or told.tells_all:
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


def _merge(newest_first: Iterator[Told]) -> dict[str, int]:
    """What the newest commit that tells of an application says of it, as Apache Hudi reads it."""
    newest: dict[str, int] = {}
    for told in newest_first:
        newest = {**told.batches, **newest}
        if told.tells_all:
            break
    return newest


def _walk(env: Env, paths: TimelinePaths, timeline: Timeline) -> Iterator[Told]:
    """Completed commits, newest first, archived ones last; each is read when it is asked for."""
    yield from _walk_active(env, paths, timeline)
    from hoodoo.timeline.history import load_history  # imports Arrow, and is rarely needed

    active = {instant.requested_time for instant in timeline.commits}
    archived = [
        (instant.completion_time or instant.requested_time, instant)
        for instant in load_history(env, paths)
        if instant.action.writes_data and instant.requested_time not in active
    ]
    for completion_time, instant in sorted(archived, key=lambda pair: pair[0], reverse=True):
        with naming(f"{paths.history}, {instant.requested_time}"):
            metadata = codec.decode(instant.metadata or b"", instant.action, State.COMPLETED)
            if isinstance(metadata, CommitMetadata):
                batches = decode_batches(metadata.extra_metadata)
                yield Told(instant.requested_time, completion_time, metadata, batches)


def _walk_active(env: Env, paths: TimelinePaths, timeline: Timeline) -> Iterator[Told]:
    newest_first = sorted(timeline.commits, key=lambda instant: instant.ended_at, reverse=True)
    for instant in newest_first:
        metadata = read_commit(env, paths, instant)
        with naming(instant_path(paths, instant)):
            batches = decode_batches(metadata.extra_metadata)
        yield Told(instant.requested_time, instant.ended_at, metadata, batches)
