"""Apache Hudi and we write to one table at the same time, and keep each other out by its lock."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import FIRST, trips
from compat.shared_table import (
    AFTER_FIRST,
    NO_SMALL_FILES,
    OUR_LOCK,
    TOGETHER,
    check,
    new_table,
    pending,
    silence,
)
from support.hudi_classes import HudiClasses, JavaLock
from support.paused_writes import pause_write
from support.processes import until

import hoodoo
from hoodoo.concurrency.locks.table_lock import hold_lock, make_lock
from hoodoo.concurrency.locks.zookeeper import drop_connection, resolve_lock_node
from hoodoo.errors import LockLost, LockTimeout, WriteConflict
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.zookeeper import ZooKeeperServer

PREFIX = "hoodie.write.lock"
IMPATIENT = {f"{PREFIX}.client.num_retries": "2"}
CONFLICT = "ConcurrentModificationException"
AWAY_S = 10
THEIRS = {3, 4, 7, 8}
IN_THE_GATE = ("replace", r"/hoodoo/head$")
Theirs = Callable[[], JavaLock]


def opened(place: Path, **settings: object) -> TableRef:
    """Our view of a new table with these settings of its lock."""
    new_table(place, "cow")
    named = {f"{PREFIX}.{key.replace('__', '.')}": value for key, value in settings.items()}
    return open_ref(str(place), named)


def exclude_each_other(ref: TableRef, theirs: Theirs) -> None:
    """Each side in turn holds the lock, is in the other's way, and lets it in."""
    ours = make_lock(ref, "test")
    assert ours.try_acquire() is None
    refused = theirs()
    assert not refused.try_acquire()
    ours.confirm_with_lock()
    ours.release()

    lock = theirs()
    assert lock.try_acquire(5000)
    short = open_ref(ref.uri, {**ref.config.values, f"{PREFIX}.wait_time_ms": "300"})
    with pytest.raises(LockTimeout), hold_lock(short, "test"):
        raise AssertionError("both have it")
    waiting = make_lock(ref, "test")
    assert waiting.try_acquire() is not None
    lock.release()
    until("we get the lock", lambda: waiting.try_acquire() is None, within_s=AWAY_S)
    waiting.confirm_with_lock()
    waiting.release()


def test_filesystem_lock(classes: HudiClasses, tmp_path: Path) -> None:
    ref = opened(tmp_path, provider="filesystem")
    settings = {"hoodie.base.path": str(tmp_path), f"{PREFIX}.filesystem.expire": "0"}
    exclude_each_other(ref, lambda: classes.lock("FileSystemBasedLockProvider", settings))


def test_zookeeper_lock(classes: HudiClasses, server: ZooKeeperServer, tmp_path: Path) -> None:
    place = {"url": server.address, "base_path": "/locks", "lock_key": "trips"}
    named = {f"{PREFIX}.zookeeper.{key}": value for key, value in place.items()}
    ref = opened(tmp_path, provider="zookeeper", **{f"zookeeper__{k}": v for k, v in place.items()})
    exclude_each_other(ref, lambda: classes.lock("ZookeeperBasedLockProvider", named))
    drop_connection(ref.env, resolve_lock_node(ref))


def test_zookeeper_lock_of_the_base_path(
    classes: HudiClasses, server: ZooKeeperServer, tmp_path: Path
) -> None:
    ref = opened(tmp_path, provider="zookeeper_implicit_base_path", zookeeper__url=server.address)
    settings = {f"{PREFIX}.zookeeper.url": server.address, "hoodie.base.path": ref.uri}
    exclude_each_other(
        ref, lambda: classes.lock("ZookeeperBasedImplicitBasePathLockProvider", settings)
    )
    drop_connection(ref.env, resolve_lock_node(ref))


# -- writes at the same time ----------------------------------------------------------------------


class Together:
    """A table that Hudi writes in a thread of its own, and what became of the writes of both."""

    def __init__(self, hudi: Peer, place: Path, pool: ThreadPoolExecutor) -> None:
        self._hudi = hudi
        self._pool = pool
        self.place = place
        self.kept: set[int] = set()
        self.refused: set[int] = set()

    def begin_theirs(self, number: int, **settings: str) -> Future[None]:
        """Hudi begins a write, and is about to make its files when this returns."""
        known = set(self.place.glob(".hoodie/timeline/*.inflight"))
        write = self._pool.submit(self._theirs, number, settings)

        def is_begun() -> bool:
            new = set(self.place.glob(".hoodie/timeline/*.inflight")) - known
            return any(file.stat().st_size for file in new) or write.done()

        until("Hudi has begun", is_begun, within_s=60, every_s=0.002)
        return write

    def theirs(self, number: int) -> None:
        """Hudi writes, in its own time."""
        self._theirs(number, {})

    def ours(self, number: int, write: Callable[[], object]) -> None:
        """We write, or go on with it."""
        try:
            write()
            self.kept.add(number)
        except (WriteConflict, LockLost):  # Hudi deletes the lock twice when it gives it back
            self.refused.add(number)

    def _theirs(self, number: int, settings: dict[str, str]) -> None:
        try:
            self._hudi.write(self.place, numbered(number), TOGETHER | NO_SMALL_FILES | settings)
            self.kept.add(number)
        except PeerError as error:
            if CONFLICT not in str(error):
                raise
            self.refused.add(number)

    def check(self) -> None:
        """Every row that was acknowledged is there, and none that was refused."""
        last = max(self.kept)
        new = [f"k{number} {number} {number}" for number in self.kept]
        check(self._hudi, self.place, f"a {last} {last}", *AFTER_FIRST[1:], *new)

    def completed(self) -> list[tuple[str, str]]:
        """Begin and end of each write that is committed, by its begin."""
        timeline = hoodoo.open_table(str(self.place)).timeline()
        return [(i.requested_time, i.completion_time) for i in timeline if i.completion_time]


def numbered(number: int) -> pa.Table:
    """An update that all writes make, and a row of this one alone."""
    return trips(f"a sf {number} {number}", f"k{number} sf {number} {number}")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_both_write_to_the_same_file_group(hudi: Peer, tmp_path: Path, kind: str) -> None:
    """Whoever commits second is refused, on either side, and told so; no row gets lost."""
    settings = OUR_LOCK | NO_SMALL_FILES
    table = new_table(tmp_path, kind, settings)
    table.insert(trips(*FIRST))
    with ThreadPoolExecutor(1) as pool:
        both = Together(hudi, tmp_path, pool)
        with pause_write(tmp_path, lambda t: t.upsert(numbered(2)), options=settings) as ours:
            theirs = both.begin_theirs(3)  # ours was there before it
            both.ours(2, ours.go_on)
            theirs.result(60)

        theirs = both.begin_theirs(4)
        both.ours(5, lambda: table.upsert(numbered(5)))  # ours comes after it
        theirs.result(60)

        with pause_write(tmp_path, lambda t: t.upsert(numbered(6)), options=settings) as ours:
            both.theirs(7)
            both.ours(6, ours.go_on)
        assert 6 in both.refused

        theirs = both.begin_theirs(8)  # ours come in a row
        for number in range(9, 12):
            both.ours(number, partial(table.upsert, numbered(number)))
        theirs.result(60)

    assert both.kept | both.refused == set(range(2, 12))
    assert both.refused & THEIRS, "Hudi was always first"
    both.check()
    times = both.completed()
    assert all(end < begin for (_, end), (begin, _) in pairwise(times)), "two at the same time"
    # A write of Hudi's that was refused takes its heartbeat away, and leaves the rest to others.
    assert not list(tmp_path.glob(".hoodie/.heartbeat/2*"))
    refused = pending(tmp_path)
    assert len(refused) == len(both.refused & THEIRS)
    silence(tmp_path, *refused)
    table.recover()
    assert not pending(tmp_path)
    both.check()


def test_writes_to_different_file_groups_do_not_wait(hudi: Peer, tmp_path: Path) -> None:
    """Neither is refused, though each began before the other had ended."""
    table = new_table(tmp_path, "cow", OUR_LOCK)
    table.insert(trips(*FIRST))
    with pause_write(tmp_path, lambda t: t.upsert(trips("c la 2 31")), options=OUR_LOCK) as ours:
        hudi.write(tmp_path, trips("a sf 2 11"), TOGETHER)
        ours.go_on()
    check(hudi, tmp_path, "a 2 11", "b 1 20", "c 2 31", "d 1 40", "e 1 50")


def test_hudi_that_gives_up_takes_our_lock_away(hudi: Peer, tmp_path: Path) -> None:
    """It deletes the lock file at its end, whosever it is. We notice, and look what it did."""
    settings = OUR_LOCK | NO_SMALL_FILES
    new_table(tmp_path, "cow").insert(trips(*FIRST))

    def work(table: hoodoo.Table) -> None:
        table.upsert(trips("c la 2 31"))

    # Our files are written already, so that we are in the gate before Hudi comes to its own.
    with (
        ThreadPoolExecutor(1) as pool,
        pause_write(tmp_path, work, options=settings) as ours,
    ):
        theirs = Together(hudi, tmp_path, pool).begin_theirs(2, **IMPATIENT)
        ours.go_on_to(IN_THE_GATE)
        assert (tmp_path / ".hoodie/lock").exists()
        with pytest.raises(PeerError, match="Unable to acquire the lock") as told:
            theirs.result(60)
        assert re.search(rf"phase=commit .* pid={os.getpid()} ", str(told.value))
        assert not (tmp_path / ".hoodie/lock").exists()
        ours.go_on()
    check(hudi, tmp_path, "a 1 10", "b 1 20", "c 2 31", "d 1 40", "e 1 50")
