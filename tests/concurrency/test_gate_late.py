"""A writer that hears late that it has published: what others made of its instant decides."""

from __future__ import annotations

import re

import pytest
from support.fleet import COMPLETED, EXPIRY_S, Fleet, begin_commit, rows

from hoodoo.concurrency.gate import publish
from hoodoo.concurrency.locks import break_lock, held
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import LeaseLost
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Instant


class Late:
    """North stops when it is about to do something in the gate, until all of it has been swept."""

    def __init__(self, verb: str, part: str) -> None:
        self.fleet = Fleet()
        self.north, self.south = self.fleet.machine("north"), self.fleet.machine("south")
        self.attempt = begin_commit(self.north)
        self.time = self.attempt.instant.requested_time
        self._moment = (verb, part)
        self._is_claimed = False

    def finish(self) -> Instant:
        self.north.storage._before = self._meanwhile
        with transaction(self.north.ref, "commit") as txn:
            return publish(txn, self.attempt, CommitMetadata)

    def _meanwhile(self, verb: str, path: str) -> None:
        if self._is_claimed and verb == self._moment[0] and re.search(self._moment[1], path):
            self.north.storage._before = lambda verb, path: None
            break_lock(self.south.ref)
            self.fleet.die(self.north)
            for _ in range(4):
                self.south.table.recover()
                self.fleet.world.pass_time(2 * EXPIRY_S + 1)
            assert not self.fleet.store.exists(paths.claim(self.time))
            self.south.table.insert(rows(k1=1))
            self.north.clock.is_stopped = False
        self._is_claimed = self._is_claimed or "claims" in path


def test_a_commit_that_others_saw_stays_even_if_its_claim_was_swept() -> None:
    late = Late("stat", "table_lock")
    assert late.finish().is_completed
    found = late.south.ref.load_timeline().find(late.time)
    assert found is not None
    assert found.is_completed


def test_a_commit_that_others_rolled_back_goes_even_if_their_claim_was_swept() -> None:
    late = Late("create", COMPLETED)
    with pytest.raises(LeaseLost, match="rolled back while it was published"):
        late.finish()
    assert late.south.ref.load_timeline().find(late.time) is None
    assert late.south.rows() == {"k1": 1}


def test_a_filesystem_lock_of_another_is_not_removed() -> None:
    """Apache Hudi removes our lock when it gives up waiting, and the next one takes it."""
    fleet = Fleet(**{"hoodie.write.lock.provider": "filesystem"})
    north = fleet.machine("north")
    with held(north.ref, "commit"):
        fleet.store.delete(".hoodie/lock")
        fleet.store.create(".hoodie/lock", b"of someone else")
    assert fleet.store.read(".hoodie/lock") == b"of someone else"
