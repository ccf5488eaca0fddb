"""A write that others rolled back while it went on takes away what it made since."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.writer_machines import Fleet, Machine, rows

from hoodoo.errors import HeartbeatLost
from hoodoo.model import paths
from hoodoo.model.instant import Instant
from hoodoo.table.timeline import instant_path

MARKER = r"\.temp/"


def by_apache_hudi(south: Machine, instant: Instant) -> None:
    """Apache Hudi leaves no claim and no note, and sees no marker yet."""
    timeline = south.ref.properties.timeline_paths
    requested = instant_path(timeline, instant).replace(".inflight", ".commit.requested")
    for path in (instant_path(timeline, instant), requested):
        south.storage.delete(path)
    south.storage.delete(paths.heartbeat(instant.requested_time))


def by_hoodoo(south: Machine, instant: Instant) -> None:
    south.table.rollback(instant.requested_time, force=True)


@pytest.mark.parametrize("roll_back", [by_apache_hudi, by_hoodoo])
def test_no_file_is_left_of_a_write_rolled_back_by_another(
    roll_back: Callable[[Machine, Instant], None],
) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    north.table.insert(rows(k1=1))
    before, undone = fleet.data_files(), []

    def roll_back_once(verb: str, path: str) -> None:
        if verb == "create" and re.search(MARKER, path) and not undone:
            (instant,) = south.ref.load_timeline().pending
            undone.append(instant)
            roll_back(south, instant)

    north.storage.before(roll_back_once)
    with pytest.raises(HeartbeatLost, match="rolled back"):
        north.table.upsert(rows(k1=2))
    assert undone
    assert fleet.data_files() == before
    assert not list(fleet.store.list(paths.marker_directory(undone[0].requested_time)))
    assert south.rows() == {"k1": 1}
