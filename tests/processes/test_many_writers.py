"""Four processes write one table, one of them is killed every few seconds: nothing is lost."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from processes.blocks import SCHEMA, Ledger, check_rows, check_rows_meanwhile
from processes.table_checks import check_sound, recover_wholly
from support.processes import Child, Children

import hoodoo
from hoodoo.api.table import Table
from hoodoo.concurrency.heartbeats import read_heartbeat
from hoodoo.errors import ObjectNotFound
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.table.ref import open_ref
from hoodoo_testing.servers.object_stores import S3Server

pytestmark = pytest.mark.slow

KINDS = ("cow", "mor")
WRITERS = 4
COMMITS, COMMITS_AT_NIGHT = 8, 25
ACKS_PER_KILL = 5
DEADLINE_S = 180
SCRIPT = Path(__file__).with_name("writer.py")
OPTIONS: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
    "hoodie.write.lock.storage.validity.timeout.secs": 4,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
    "hoodie.write.num.retries.on.conflict.failures": 4,
}


class Crew:
    """The writers: for each, the process that is at it now, and those that were killed before."""

    def __init__(
        self, children: Children, uri: str, options: Mapping[str, object], commits: int
    ) -> None:
        self._children = children
        self._commits = commits
        self._spec = {"uri": uri, "options": dict(options)}
        self._ref = open_ref(uri, options)
        self._incarnations: list[list[Child]] = [[] for _ in range(WRITERS)]
        for writer in range(WRITERS):
            self._start(writer)

    def ledgers(self) -> list[Ledger]:
        return [self._ledger(writer) for writer in range(WRITERS)]

    def at_work(self) -> list[int]:
        """The writers that are not done; one that failed by itself fails the test."""
        running = []
        for writer, incarnations in enumerate(self._incarnations):
            child = incarnations[-1]
            assert child.code in (None, 0), child.told()
            if child.code is None:
                running.append(writer)
        return running

    def is_writing(self, writer: int) -> bool:
        """Whether it has begun a write: most of its time it waits for the lock."""
        return self._incarnations[writer][-1].journal.words()[-1:] == ["intent"]

    def has_instant(self, writer: int) -> bool:
        """Whether it has a heartbeat."""
        pid, storage = self._incarnations[writer][-1].pid, self._ref.env.storage
        beats = [entry.path.rpartition("/")[2] for entry in storage.list(paths.HEARTBEATS)]
        for instant in map(InstantTime, beats):
            with suppress(ObjectNotFound):
                beat = read_heartbeat(self._ref.env, instant)
                if beat is not None and beat.pid == pid:
                    return True
        return False

    def replace(self, writer: int) -> None:
        """Kill a writer; another process goes on with its work."""
        self._incarnations[writer][-1].kill()
        self._start(writer)

    def check_rows(self) -> None:
        """What can be read now is what the journals say."""
        before = self.ledgers()
        rows = Table(self._ref).to_arrow().to_pylist()
        check_rows_meanwhile(rows, before, self.ledgers())

    def _ledger(self, writer: int) -> Ledger:
        journals = [child.journal.entries() for child in self._incarnations[writer]]
        return Ledger.of(writer, journals)

    def _start(self, writer: int) -> None:
        ledger = self._ledger(writer)
        progress = {
            "writer": writer,
            "commits": self._commits - ledger.acknowledged,
            "first": ledger.next_number,
            "living": sorted(ledger.living),
        }
        child = self._children.start(SCRIPT, {**self._spec, **progress}, deadline_s=DEADLINE_S)
        self._incarnations[writer].append(child)


def run(crew: Crew, chance: random.Random) -> int:
    """Let the writers work to the end, killing one after every few commits; how many were."""
    kills = 0
    deadline = time.monotonic() + DEADLINE_S
    while running := crew.at_work():
        assert time.monotonic() < deadline, "the writers do not get done"
        done = sum(ledger.acknowledged for ledger in crew.ledgers())
        if done >= (kills + 1) * ACKS_PER_KILL:
            kills += strike(crew, chance.choice(running), chance)
            crew.check_rows()
        time.sleep(0.01)
    return kills


def strike(crew: Crew, victim: int, chance: random.Random) -> bool:
    """Kill a writer in the middle of a write; False if it was done before that."""
    is_due = crew.has_instant if chance.random() < 0.75 else crew.is_writing
    while not is_due(victim):
        if victim not in crew.at_work():
            return False
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.1))  # any moment will do: this is what is tested
    crew.replace(victim)
    return True


def check(
    uri: str, options: Mapping[str, object], kind: str, folder: Path, *, seed: int, commits: int
) -> None:
    hoodoo.create_table(
        uri, schema=SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options
    )
    began = time.monotonic()
    with Children(folder) as children:
        crew = Crew(children, uri, options, commits)
        kills = run(crew, random.Random(seed))
        ledgers = crew.ledgers()
    wrote_s = time.monotonic() - began
    recovery_s = recover_wholly(uri, options, within_s=60)
    check_rows(check_sound(uri, options), ledgers)
    assert [ledger.acknowledged for ledger in ledgers] == [commits] * WRITERS
    assert kills >= WRITERS
    actions = Counter(instant.action for instant in hoodoo.open_table(uri, options).timeline())
    failed = sum((ledger.failed for ledger in ledgers), Counter[str]())
    print(
        f"\n{kind} at {uri.partition(':')[0]}: {kills} kills, "
        f"{sum(ledger.unknown for ledger in ledgers)} writes cut off, "
        f"failed and repeated: {dict(failed)}, timeline: {dict(actions)}, "
        f"{wrote_s:.1f} s of writing, {recovery_s:.1f} s until all was swept"
    )


def few_of(in_ci: str) -> pytest.MarkDecorator:
    """Few commits to a table of this kind in CI, more to both at night."""
    night = [pytest.param(kind, COMMITS_AT_NIGHT, marks=pytest.mark.nightly) for kind in KINDS]
    return pytest.mark.parametrize(("kind", "commits"), [(in_ci, COMMITS), *night])


@few_of("cow")
def test_nothing_is_lost_on_local_disk(tmp_path: Path, kind: str, commits: int) -> None:
    check(str(tmp_path / "table"), OPTIONS, kind, tmp_path, seed=1, commits=commits)


@pytest.mark.server
@few_of("mor")
def test_nothing_is_lost_on_s3(s3: S3Server, tmp_path: Path, kind: str, commits: int) -> None:
    options = {**OPTIONS, **s3.options}
    place = s3.uri(f"{uuid.uuid4()}/table")
    check(place, options, kind, tmp_path, seed=2, commits=commits)
