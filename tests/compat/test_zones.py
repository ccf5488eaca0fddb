"""Apache Hudi and we write one table in turns, west of Greenwich, by local time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import OPERATION, TYPE
from compat.shared_table import ALONE, check, new_table
from support.zones import time_zone

import hoodoo

ZONE = "America/New_York"
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@pytest.fixture(scope="module")
def hudi_there(
    installed_hudi: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """An Apache Hudi whose JVM is in New York."""
    peer = Peer(installed_hudi, tmp_path_factory.mktemp("hudi-there"), zone=ZONE)
    yield peer
    peer.close()


def upsert(hudi: Peer, place: Path, kind: str, *lines: str) -> None:
    hudi.write(place, trips(*lines), ALONE | {OPERATION: "upsert", TYPE: KINDS[kind]})


def assert_drawn_now(place: Path, zone: str) -> None:
    """Clocks of the zone have just shown all instants, one after the other."""
    times = [one.requested_time for one in hoodoo.open_table(str(place)).timeline()]
    read = [datetime.strptime(time[:14], "%Y%m%d%H%M%S") for time in times]
    now = datetime.now(UTC)
    assert all(
        abs(one.replace(tzinfo=ZoneInfo(zone)) - now) < timedelta(minutes=10) for one in read
    )


@pytest.mark.parametrize("kind", KINDS)
def test_turns_on_a_table_of_hudis(hudi_there: Peer, tmp_path: Path, kind: str) -> None:
    """Its table is in local time; the rows of whoever wrote last are there for all readers."""
    place = tmp_path / "t"
    with time_zone(ZONE):
        upsert(hudi_there, place, kind, "a sf 1 1", "b sf 1 1")
        hoodoo.open_table(str(place)).upsert(trips("a sf 2 2", "c sf 2 2"))
        check(hudi_there, place, "a 2 2", "b 1 1", "c 2 2")
        upsert(hudi_there, place, kind, "a sf 3 3", "c sf 3 3")
        check(hudi_there, place, "a 3 3", "b 1 1", "c 3 3")
        assert_drawn_now(place, ZONE)


@pytest.mark.parametrize("kind", KINDS)
def test_turns_on_a_table_of_ours(hudi_there: Peer, tmp_path: Path, kind: str) -> None:
    """Our table says UTC, and Hudi heeds that wherever it runs."""
    place = tmp_path / "t"
    with time_zone(ZONE):
        new_table(place, kind).insert(trips("a sf 1 1", "b sf 1 1"))
        upsert(hudi_there, place, kind, "a sf 2 2", "c sf 2 2")
        check(hudi_there, place, "a 2 2", "b 1 1", "c 2 2")
        hoodoo.open_table(str(place)).upsert(trips("a sf 3 3"))
        check(hudi_there, place, "a 3 3", "b 1 1", "c 2 2")
        assert_drawn_now(place, "UTC")
