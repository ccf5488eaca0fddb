"""We and Apache Hudi write to one table with indexes at the same time, nobody held anywhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.shared_indexed_table import INDEXED, Both, with_indexes
from compat.shared_table import AFTER_FIRST, OUR_LOCK, TOGETHER, pending, silence

from hoodoo.errors import EarlyConflict, LockLost, WriteConflict
from hoodoo_testing.servers.zookeeper import ZooKeeperServer

ROUNDS = 6
PREFIX = "hoodie.write.lock"
PROVIDER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
CONFLICT = "ConcurrentModificationException"


class Race:
    """Writes of both: each updates a row that others update too, and adds one of its own."""

    def __init__(self, both: Both) -> None:
        self._both = both
        self._numbers = count(2)
        self.kept: dict[str, list[int]] = {"sf": [], "la": []}
        self.refused = 0

    def ours(self, city: str) -> None:
        number, rows = self._rows(city)
        try:
            self._both.table.upsert(trips(*rows))
            self.kept[city].append(number)
        except (WriteConflict, EarlyConflict, LockLost):
            self.refused += 1

    def theirs(self, city: str) -> None:
        number, rows = self._rows(city)
        try:
            self._both.theirs(*rows)
            self.kept[city].append(number)
        except PeerError as error:
            if CONFLICT not in str(error):
                raise
            self.refused += 1

    def _rows(self, city: str) -> tuple[int, tuple[str, str]]:
        number = next(self._numbers)
        shared = {"sf": "a", "la": "c"}[city]
        return number, (f"{shared} {city} {number} {number}", f"k{number} {city} 1 {number}")

    def expected(self) -> list[str]:
        """The rows of all writes that were acknowledged; the highest number has the shared one."""
        rows = dict(zip("abcde", AFTER_FIRST, strict=True))
        for city, shared in (("sf", "a"), ("la", "c")):
            rows |= {f"k{number}": f"k{number} 1 {number}" for number in self.kept[city]}
            if last := max(self.kept[city], default=0):
                rows[shared] = f"{shared} {last} {last}"
        return list(rows.values())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("lock", ["filesystem", "zookeeper"])
def test_indexes_are_right_after_a_race(
    hudi: Peer, server: ZooKeeperServer, tmp_path: Path, kind: str, lock: str
) -> None:
    theirs, ours = TOGETHER, OUR_LOCK
    if lock == "zookeeper":
        place = {"url": server.address, "base_path": "/race", "lock_key": f"trips-{kind}"}
        named = {f"{PREFIX}.zookeeper.{key}": value for key, value in place.items()}
        theirs = {**TOGETHER, **named, f"{PREFIX}.provider": PROVIDER}
        ours = {**named, f"{PREFIX}.provider": "zookeeper"}
    both = with_indexes(hudi, tmp_path / "trips", kind, INDEXED, theirs, ours)
    both.make("hoodoo")
    race = Race(both)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(ROUNDS):
            turn = pool.submit(race.theirs, "sf")
            race.ours("la")
            while not turn.done():
                race.ours("sf")
            turn.result()
    assert race.kept["sf"]
    assert race.kept["la"]
    both.check(*race.expected())
    silence(both.place, *pending(both.place))
    both.table.recover()
    assert not pending(both.place)
    both.check(*race.expected())
