"""The step of the tour that builds an index while a writer is in the middle of its write."""

from __future__ import annotations

from typing import Any

from hoodoo.api import open_table
from hoodoo.cli.tour.paused_writer import WRITTEN, PausedWriter
from hoodoo.cli.tour.step import Tour, expect, say

_BY_INDEX = {"hoodie.index.type": "RECORD_INDEX"}
_FEW_FILES = {"hoodie.metadata.global.record.level.index.min.filegroup.count": 4}


def build_index(tour: Tour) -> None:
    """Build a record index beside a writer, and find the writer's new row by it."""
    new = _row(tour, fare=31.0, ts=6)
    with PausedWriter(tour.place, new, {}, at=WRITTEN) as writer:
        say("a writer has written a new trip, and has not committed yet")
        with tour.working("index create record_index"):
            done = open_table(str(tour.place), _FEW_FILES).create_index("record_index")
        assert done is not None
        say(f"built by {done.instant}: {', '.join(done.built)}")
        expect(writer.is_paused, "nobody waited for anybody")
        say(f"the writer goes on, and commits: {writer.go_on().result().instant}")
    for index in tour.table.indexes():
        say(f"{index.name}: {index.state}, {index.files} files, {index.size_bytes:,} bytes")
    with tour.working("upsert of the same trip, found by the index"):
        found = open_table(str(tour.place), _BY_INDEX).upsert(_row(tour, fare=32.0, ts=7))
    say(
        f"committed {found.instant}: {found.stats.updated} updated, {found.stats.inserted} inserted"
    )
    expect((found.stats.updated, found.stats.inserted) == (1, 0), "the index knows the new trip")
    expect(not tour.table.doctor(), "and nothing is wrong")


def _row(tour: Tour, *, fare: float, ts: int) -> Any:
    import pyarrow as pa

    row = {"trip_id": "t-index", "city": "lima", "fare": fare, "ts": ts}
    return pa.Table.from_pylist([row], tour.table.schema)
