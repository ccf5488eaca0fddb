"""How large files may get, and how large a row is: what recent commits of a table tell."""

from __future__ import annotations

from collections.abc import Iterator

from hoodoo.config.write import MAX_FILE_SIZE, RECORD_SIZE_ESTIMATE, SMALL_FILE_LIMIT
from hoodoo.index.assign import Sizes, average_row_bytes
from hoodoo.table.snapshot import Snapshot
from hoodoo.timeline.load import read_commit

_RECENT_COMMITS = 5


def load_sizes(snapshot: Snapshot, *, has_inserts: bool) -> Sizes:
    """Limits for file sizes; how large a row is matters, and costs reads, for new rows only."""
    config = snapshot.ref.config
    small = config.get(SMALL_FILE_LIMIT)
    recent = _recent_writes(snapshot) if has_inserts else ()
    measured = average_row_bytes(recent, enough_bytes=small)
    if measured is None and config.sets(RECORD_SIZE_ESTIMATE):
        measured = float(config.get(RECORD_SIZE_ESTIMATE))
    return Sizes(config.get(MAX_FILE_SIZE), small, measured)


def _recent_writes(snapshot: Snapshot) -> Iterator[tuple[int, int]]:
    """Bytes and rows of base files that recent commits wrote, newest first."""
    ref = snapshot.ref
    for instant in snapshot.timeline.commits.instants[-_RECENT_COMMITS:][::-1]:
        metadata = read_commit(ref.env, ref.properties.timeline, instant)
        bases = [stat for _, stat in metadata.stats() if not stat.is_log]
        size = sum(stat.total_write_bytes for stat in bases)
        yield size, sum(stat.num_writes for stat in bases)
