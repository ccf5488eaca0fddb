"""A reader of changes misses no commit, although a listing is not taken in one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from support.writer_machines import SCHEMA, Fleet, rows

from hoodoo.api.table import Table
from hoodoo.runtime.engine import LocalEngine
from hoodoo.storage.storage import ObjectInfo
from hoodoo.storage.traced import TracedStorage
from hoodoo.write.detached import begin_detached, commit_detached, write_rows


class SlowListing(TracedStorage):
    """Something happens once, when a listing of the timeline has come as far as this instant."""

    instant = ""
    meanwhile: Callable[[], object] | None = None

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        listed = list(super().list(prefix, recursive=recursive))
        if not prefix.endswith("/timeline") or self.meanwhile is None:
            return iter(listed)
        until = f"{prefix}/{self.instant}~"
        first = [entry for entry in listed if entry.path < until]
        happen, self.meanwhile = self.meanwhile, None
        happen()
        return iter([*first, *(e for e in super().list(prefix) if e.path > until)])


def test_a_commit_that_appears_behind_the_listing_is_not_skipped() -> None:
    fleet = Fleet()
    north, reader, late = fleet.machine("north"), fleet.machine("reader"), fleet.machine("late")
    since = north.table.insert(rows(k0=0)).completion_time
    begun = begin_detached(late.ref, SCHEMA)
    stats = write_rows(begun, rows("b", k1=1).to_batches(), number=0, attempt=0)
    slow = SlowListing(reader.storage)

    def happen() -> None:
        """Both are completed in this order, and sort in this order."""
        commit_detached(begun, stats, LocalEngine(threads=1))
        north.table.insert(rows("c", k2=2))

    slow.instant, slow.meanwhile = begun.instant.requested_time, happen
    table = Table(replace(reader.ref, env=replace(reader.ref.env, storage=slow)))
    seen = []
    for _ in range(2):
        found = table.changes(since=since, columns=["_hoodie_commit_time", "id"])
        seen += found["id"].to_pylist()
        done = {i.requested_time: i.completion_time for i in table.timeline()}
        times = [done[time] for time in found["_hoodie_commit_time"].to_pylist()]
        since = max((time for time in times if time), default=since)
    assert sorted(seen) == ["k1", "k2"]
