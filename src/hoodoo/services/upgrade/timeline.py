"""The timeline of a table of version 6 in the form of version 9. Pure.

    .hoodie/<r>.commit                   ->  .hoodie/timeline/<r>_<c>.commit, JSON -> Avro
    .hoodie/<r>.inflight, .requested     ->  .hoodie/timeline/<same name>, JSON -> Avro
    .hoodie/<r>.replacecommit.requested  ->  .hoodie/timeline/<r>.clustering.requested, if it has
                                             the plan of a clustering
    .hoodie/archived/.commits_.archive.* ->  .hoodie/timeline/history/*.parquet

Version 6 records no completion times. An instant completed as long after it was requested as its
completed file was modified after its requested file: both times are of one clock, the store's. But
it is given no later time than the next instant began. So the order of instants stays as it was, and
so does every file slice: from version 8 on, a log file belongs to the newest base file that was
requested before the log's instant completed, and in version 6 to the base file in its name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hoodoo.errors import InputError
from hoodoo.format.avro import container
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State, from_wall_ms, to_wall_ms
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.plans import RequestedReplaceMetadata

_SECOND_DIGITS = 14

InstantKey = tuple[InstantTime, Action]
"""Tells instants apart: a savepoint has the time of its commit."""


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file of the active timeline of layout 1."""

    instant: Instant
    path: str
    modified_ms: int
    size_bytes: int


def key_of(instant: Instant) -> InstantKey:
    """What all files of one instant have in common."""
    return instant.requested_time, instant.action.completed_as


def assign_completions(files: Iterable[OldFile]) -> dict[InstantKey, InstantTime]:
    """A completion time for each completed instant."""
    file_list = list(files)
    began: dict[InstantKey, int] = {}
    modified_by_key: dict[InstantKey, int] = {}
    for file in file_list:
        key = key_of(file.instant)
        if file.instant.is_completed:
            modified_by_key[key] = file.modified_ms
        else:
            began[key] = min(file.modified_ms, began.get(key, file.modified_ms))
    times = sorted({file.instant.requested_time for file in file_list})
    return {
        key: choose_completion(
            key[0],
            took_ms=modified_ms - began.get(key, modified_ms),
            following=following(times, key[0]),
        )
        for key, modified_ms in modified_by_key.items()
    }


def following(times: Sequence[InstantTime], time: InstantTime) -> InstantTime | None:
    """The first of these times that is later."""
    at = bisect_right(times, time)
    return times[at] if at < len(times) else None


def choose_completion(
    requested_time: InstantTime, *, took_ms: int, following: InstantTime | None
) -> InstantTime:
    """The end of an instant that took so long; after it began, and before the next one did."""
    soonest = _just_after(requested_time)
    for candidate in (_later(requested_time, took_ms), soonest):
        if candidate >= soonest and (following is None or candidate < following):
            return candidate
    return requested_time  # the next one began within the same millisecond


def _later(time: InstantTime, ms: int) -> InstantTime:
    try:
        return from_wall_ms(to_wall_ms(time) + ms)
    except InputError:  # no calendar time
        return time


def _just_after(time: InstantTime) -> InstantTime:
    """As texts compare, `20240101000000001` is later than `20240101000000`."""
    return InstantTime(f"{time}001") if len(time) == _SECOND_DIGITS else _later(time, 1)


def choose_archived_completions(
    instants: Sequence[ArchivedInstant], active_start: InstantTime | None
) -> list[ArchivedInstant]:
    """Archived instants with a completion time each: the one in the archive, where it can be."""
    times = sorted({each.requested_time for each in instants})
    if active_start is not None:
        times.append(active_start)
    results = []
    for each in instants:
        requested_time, completion_time = each.requested_time, each.completion_time
        after = following(times, requested_time)
        if (
            completion_time is None
            or completion_time <= requested_time
            or (after is not None and completion_time >= after)
        ):
            completion_time = choose_completion(requested_time, took_ms=1, following=after)
        results.append(replace(each, completion_time=completion_time))
    return results


# -- one file ------------------------------------------------------------------------------------


def is_clustering_plan(data: bytes) -> bool:
    """Whether a requested replace commit of layout 1 is a plan to cluster."""
    plan = codec.decode(data, Action.REPLACE_COMMIT, State.REQUESTED)
    return isinstance(plan, RequestedReplaceMetadata) and plan.clustering_plan is not None


def new_name(
    instant: Instant,
    completions: Mapping[InstantKey, InstantTime],
    clusterings: frozenset[InstantTime],
) -> str:
    """The name of a file of layout 1 in layout 2."""
    if instant.is_completed:
        completed_instant = replace(instant, completion_time=completions[key_of(instant)])
        return instant_name(completed_instant, layout=2)
    return instant_name(_rename(instant, clusterings), layout=2)


def new_content(instant: Instant, data: bytes, clusterings: frozenset[InstantTime]) -> bytes:
    """The content of a file of layout 1 in layout 2."""
    new_instant = _rename(instant, clusterings)
    if new_instant.action is Action.CLUSTERING and new_instant.state is State.INFLIGHT:
        return b""
    action = instant.action.completed_as if instant.is_completed else instant.action
    kind = codec.KINDS.get((action, instant.state))
    if kind is None or not issubclass(kind, CommitMetadata) or data.startswith(container.MAGIC):
        return data
    if not data:  # a completed one is of a writer that crashed, and readers of layout 2 fail on it
        return codec.encode(kind()) if instant.is_completed else data
    return codec.encode(codec.decode_as(data, kind))


def _rename(instant: Instant, clusterings: frozenset[InstantTime]) -> Instant:
    """Pending clusterings have an action of their own since version 8."""
    if instant.is_pending and instant.requested_time in clusterings:
        return replace(instant, action=Action.CLUSTERING)
    return instant


def parse_old_name(name: str) -> Instant | None:
    """The instant of a file of layout 1, or of the checksum that Hadoop keeps beside one."""
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1 : -len(".crc")]
    return parse_instant(name, layout=1)
