"""`Table.lock_status`: who is in the table, as others see it."""

from __future__ import annotations

from support.writer_machines import Fleet

from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.inspect.locks import lock_status
from hoodoo.model import paths


def test_the_api_tells_who_holds_the_lock() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    assert not south.table.lock_status().is_held
    with transaction(north.ref, "commit"):
        told = south.table.lock_status()
        assert told == lock_status(south.ref)
        assert (told.is_live, told.host, told.phase) == (True, "north", "commit")
        assert (told.provider, told.place) == ("storage", paths.LOCK)
        fleet.die(north)
        assert south.table.lock_status().is_held
        assert not south.table.lock_status().is_live
    assert not south.table.lock_status().is_held
