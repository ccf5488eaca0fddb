"""Between writing and committing: what the stats name must be there."""

from __future__ import annotations

from collections.abc import Sequence

from hoodoo.env import Env
from hoodoo.errors import CommitFailed, NotFound
from hoodoo.model.stats import WriteStat


def finalize(env: Env, stats: Sequence[WriteStat]) -> None:
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
