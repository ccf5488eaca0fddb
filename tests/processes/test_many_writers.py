"""Four processes write one table, one of them is killed every few seconds: nothing is lost."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from blocks import SCHEMA, Ledger, check_rows
from soundness import check_sound, recover_wholly
from support.processes import Child, Children

import hoodoo
from hoodoo.testing.servers import S3Server

WRITERS = 4
COMMITS = 25
ACKS_PER_KILL = 8
DEADLINE_S = 180
SCRIPT = Path(__file__).with_name("writer.py")
OPTIONS: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
    "hoodie.write.lock.storage.validity.timeout.secs": 3,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
    "hoodie.write.num.retries.on.conflict.failures": 4,
}


class Crew:
    """The writers: for each, the process that is at it now and those that were killed before."""

    def __init__(self, children: Children, uri: str, options: Mapping[str, object]) -> None:
        self._children = children
        self._spec = {"uri": uri, "options": dict(options)}
        self.incarnations: list[list[Child]] = [[] for _ in range(WRITERS)]
        for writer in range(WRITERS):
            self._start(writer)

    def ledger(self, writer: int) -> Ledger:
        journals = [child.journal.entries() for child in self.incarnations[writer]]
        return Ledger.of(writer, journals)

    def ledgers(self) -> list[Ledger]:
        return [self.ledger(writer) for writer in range(WRITERS)]

    def replace(self, writer: int) -> None:
        """Kill a writer; another process goes on with its work."""
        self.incarnations[writer][-1].kill()
        self._start(writer)

    def at_work(self) -> list[int]:
        """The writers that are not done; one that failed by itself fails the test."""
        running = []
        for writer, incarnations in enumerate(self.incarnations):
            child = incarnations[-1]
            assert child.code in (None, 0), child.told()
            if child.code is None:
                running.append(writer)
        return running

    def is_writing(self, writer: int) -> bool:
        words = self.incarnations[writer][-1].journal.words()
        return bool(words) and words[-1] == "intent"

    def _start(self, writer: int) -> None:
        ledger = self.ledger(writer)
        progress = {
            "writer": writer,
            "commits": COMMITS - ledger.acknowledged,
            "first": ledger.next_number,
            "living": ledger.living,
        }
        spec = {**self._spec, **progress}
        child = self._children.start(SCRIPT, spec, deadline_s=DEADLINE_S)
        self.incarnations[writer].append(child)


def run(crew: Crew, seed: int) -> int:
    """Let the writers work to the end, killing one after every few commits; how many were."""
    chance = random.Random(seed)
    kills, victim, strike_at = 0, None, 0.0
    deadline = time.monotonic() + DEADLINE_S
    while running := crew.at_work():
        assert time.monotonic() < deadline, "the writers do not get done"
        done = sum(ledger.acknowledged for ledger in crew.ledgers())
        if victim is None and done >= (kills + 1) * ACKS_PER_KILL:
            victim, strike_at = chance.choice(running), 0.0
        if victim is not None and victim not in running:
            victim = None
        if victim is not None and not strike_at and crew.is_writing(victim):
            strike_at = time.monotonic() + chance.uniform(0, 0.4)
        if victim is not None and strike_at and time.monotonic() >= strike_at:
            crew.replace(victim)
            kills, victim = kills + 1, None
        time.sleep(0.01)
    return kills


def check(uri: str, options: Mapping[str, object], kind: str, folder: Path, seed: int) -> None:
    hoodoo.create_table(
        uri,
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        table_type=kind,
        options=options,
    )
    began = time.monotonic()
    with Children(folder) as children:
        crew = Crew(children, uri, options)
        kills = run(crew, seed)
        ledgers = crew.ledgers()
    wrote_s = time.monotonic() - began
    recovery_s = recover_wholly(uri, options, within_s=60)
    check_rows(check_sound(uri, options), ledgers)
    assert [ledger.acknowledged for ledger in ledgers] == [COMMITS] * WRITERS
    assert kills >= WRITERS
    failed = sum((Counter(ledger.failed) for ledger in ledgers), Counter())
    unknown = sum(ledger.unknown for ledger in ledgers)
    actions = Counter(instant.action for instant in hoodoo.open_table(uri, options).timeline())
    print(
        f"\n{kind} at {uri.partition(':')[0]}: {kills} kills, {unknown} writes cut off, "
        f"failed and repeated: {dict(failed)}, timeline: {dict(actions)}, "
        f"{wrote_s:.1f} s of writing, {recovery_s:.1f} s until all was swept"
    )


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_local_disk(tmp_path: Path, kind: str) -> None:
    check(str(tmp_path / "table"), OPTIONS, kind, tmp_path, seed=1)


@pytest.mark.server
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_s3(s3: S3Server, tmp_path: Path, kind: str) -> None:
    options = {**OPTIONS, **s3.options}
    check(s3.uri(f"{uuid.uuid4()}/table"), options, kind, tmp_path, seed=2)
