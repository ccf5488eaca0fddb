"""Between writing and committing: what the stats name must be there, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodoo.concurrency.markers import load_markers
from hoodoo.errors import CommitFailed, ObjectExists, ObjectNotFound, add_error_source
from hoodoo.format.markers import FinalizeMarker, decode_final, encode_final
from hoodoo.model import paths
from hoodoo.model.commit import WriteStat
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once

log = logging.getLogger("hoodoo.write")


def finalize(
    env: Env,
    instant_time: InstantTime,
    stats: Sequence[WriteStat],
    *,
    epoch: int = 1,
    repeats: bool = False,
) -> Sequence[WriteStat]:
    """Make the files of a write those that its commit will name: all of them, no others.

    What is returned is what everything later goes by. With `repeats`, handles that are still
    running are told by a marker that nobody waits for them any more.

    Needs: every handle of the write has ended once. Raises `CommitFailed`.
    Order: finalize marker; each named file looked at; markers listed; strays deleted; finalize
    marker with the stats.
    Crash: fewer strays; the finalize marker is swept.
    """
    etag = _begin(env, instant_time, epoch) if repeats else ""
    check_files(env, stats)
    strays = sorted(load_markers(env, instant_time).paths - _named_paths(stats))
    for path in strays:
        delete_surely(env, path)
    if strays:
        log.warning("strays_removed time=%s files=%s", instant_time, strays)
    if repeats:
        data = encode_final(FinalizeMarker(epoch, tuple(stats)))
        replace_once(env, paths.finalize_marker_path(instant_time), data, if_match=etag)
    return stats


def read_final(env: Env, instant_time: InstantTime) -> FinalizeMarker | None:
    """The finalize marker of a write, if it has come that far."""
    path = paths.finalize_marker_path(instant_time)
    try:
        data = env.storage.read(path)
    except ObjectNotFound:
        return None
    with add_error_source(path):
        return decode_final(data)


def _begin(env: Env, instant_time: InstantTime, epoch: int) -> str:
    """Put the finalize marker, in place of that of an earlier attempt; its etag."""
    path, data = paths.finalize_marker_path(instant_time), encode_final(FinalizeMarker(epoch))
    try:
        return create_once(env, path, data)
    except ObjectExists:
        etag = env.storage.stat(path).etag
        present = read_final(env, instant_time)
    if present is None or present.epoch >= epoch:
        raise CommitFailed(f"instant {instant_time} is being finalized by someone else")
    return replace_once(env, path, data, if_match=etag)


def check_files(env: Env, stats: Sequence[WriteStat]) -> None:
    """Check that every file that the commit will name exists with its size."""
    for stat in stats:
        assert stat.path is not None
        try:
            info = env.storage.stat(stat.path)
        except ObjectNotFound:
            raise CommitFailed(f"{stat.path} was written, and is gone before the commit") from None
        if info.size_bytes != stat.file_size_in_bytes:
            raise CommitFailed(
                f"{stat.path} has {info.size_bytes} bytes, not {stat.file_size_in_bytes}"
            )


def _named_paths(stats: Sequence[WriteStat]) -> set[str]:
    """Base and log files, and the change records that were written beside them."""
    paths = {stat.path for stat in stats if stat.path is not None}
    return paths.union(*(stat.cdc_stats or () for stat in stats))
