"""Between writing and committing: what the stats name must be there, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodoo.concurrency.markers import load_markers
from hoodoo.env import Env
from hoodoo.errors import CommitFailed, NotFound
from hoodoo.model.instant import InstantTime
from hoodoo.model.stats import WriteStat
from hoodoo.timeline.settled import delete_settled

log = logging.getLogger("hoodoo.write")


def finalize(env: Env, instant: InstantTime, stats: Sequence[WriteStat]) -> None:
    """Make the files of a write those that its commit will name: all of them, no others.

    Needs: all handles of the write have ended. Raises `CommitFailed`.
    Order: each named file looked at; markers listed; strays deleted.
    Crash: fewer strays.
    """
    check_written(env, stats)
    strays = sorted(load_markers(env, instant).paths - _named(stats))
    for path in strays:
        delete_settled(env, path)
    if strays:
        log.warning("strays_removed time=%s files=%s", instant, strays)


def check_written(env: Env, stats: Sequence[WriteStat]) -> None:
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


def _named(stats: Sequence[WriteStat]) -> set[str]:
    """Base and log files, and the change records that were written beside them."""
    named = {stat.path for stat in stats if stat.path is not None}
    return named.union(*(stat.cdc_stats or () for stat in stats))
