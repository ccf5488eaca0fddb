"""Between writing and committing: what the stats name must be there, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodoo.concurrency.markers import load_markers
from hoodoo.env import Env
from hoodoo.errors import AlreadyExists, CommitFailed, NotFound, naming
from hoodoo.format.completion import Final, decode_final, encode_final
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.model.stats import WriteStat
from hoodoo.timeline.resolve_unknown import create_once, delete_surely, replace_once

log = logging.getLogger("hoodoo.write")


def finalize(
    env: Env,
    instant: InstantTime,
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
    etag = _begin(env, instant, epoch) if repeats else ""
    check_files(env, stats)
    strays = sorted(load_markers(env, instant).paths - _named_paths(stats))
    for path in strays:
        delete_surely(env, path)
    if strays:
        log.warning("strays_removed time=%s files=%s", instant, strays)
    if repeats:
        data = encode_final(Final(epoch, tuple(stats)))
        replace_once(env, paths.final(instant), data, if_match=etag)
    return stats


def read_final(env: Env, instant: InstantTime) -> Final | None:
    """The finalize marker of a write, if it has come that far."""
    path = paths.final(instant)
    try:
        data = env.storage.read(path)
    except NotFound:
        return None
    with naming(path):
        return decode_final(data)


def _begin(env: Env, instant: InstantTime, epoch: int) -> str:
    """Put the finalize marker, in place of that of an earlier attempt; its etag."""
    path, data = paths.final(instant), encode_final(Final(epoch))
    try:
        return create_once(env, path, data)
    except AlreadyExists:
        etag = env.storage.stat(path).etag
        present = read_final(env, instant)
    if present is None or present.epoch >= epoch:
        raise CommitFailed(f"instant {instant} is being finalized by someone else")
    return replace_once(env, path, data, if_match=etag)


def check_files(env: Env, stats: Sequence[WriteStat]) -> None:
    """Check that every file that the commit will name exists with its size."""
    for stat in stats:
        assert stat.path is not None
        try:
            info = env.storage.stat(stat.path)
        except NotFound:
            raise CommitFailed(f"{stat.path} was written, and is gone before the commit") from None
        if info.size_bytes != stat.file_size_in_bytes:
            raise CommitFailed(
                f"{stat.path} has {info.size_bytes} bytes, not {stat.file_size_in_bytes}"
            )


def _named_paths(stats: Sequence[WriteStat]) -> set[str]:
    """Base and log files, and the change records that were written beside them."""
    paths = {stat.path for stat in stats if stat.path is not None}
    return paths.union(*(stat.cdc_stats or () for stat in stats))
