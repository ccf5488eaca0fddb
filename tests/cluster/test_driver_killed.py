"""Drivers are killed at random moments, one after the other; each goes on where the last died."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from processes.blocks import SCHEMA, Ledger, check_rows, rows_of
from processes.table_checks import check_sound, recover_wholly
from support.processes import Child, Children, until

import hoodoo
from hoodoo.model.instant import Action, InstantTime
from hoodoo.table.ref import open_ref

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

KILLS = int(os.environ.get("HOODOO_DRIVER_KILLS", "10"))
SEED = int(os.environ.get("HOODOO_DRIVER_SEED", "4"))
SCRIPT = Path(__file__).with_name("victim_driver.py")
WRITES = 4
DEADLINE_S = 400
OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 6,
    "hoodie.write.lock.storage.validity.timeout.secs": 6,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
}
BEFORE = [{"word": "intent", "number": 0, "kind": "insert", "block": 0}, {"word": "ack"}]


@dataclass
class Chain:
    """Drivers that write to one table, each until it is killed."""

    place: Path
    kind: str
    java_options: str
    moments: random.Random
    journals: list[list[dict[str, object]]] = field(default_factory=lambda: [BEFORE])
    pending: dict[InstantTime, str] = field(default_factory=dict)
    """The writes that killed drivers left on the timeline, and how far they had come."""

    @property
    def uri(self) -> str:
        return str(self.place / self.kind)

    def ledger(self) -> Ledger:
        """What all of them noted."""
        return Ledger.of(0, self.journals)

    def run(self, kills: int) -> None:
        """One driver that is left to write, to see how long that takes; then those that die."""
        table = hoodoo.create_table(
            self.uri, schema=SCHEMA, record_key="id", partition_by="part", table_type=self.kind
        )
        table.insert(rows_of((0, 0), 0))
        logs = self.place / f"{self.kind}-logs"
        logs.mkdir()
        with Children(logs) as children:
            first = self._started(children, writes=WRITES)
            began = time.monotonic()
            assert first.end(within_s=DEADLINE_S) == 0, first.told()
            lasts_s = time.monotonic() - began
            self.journals.append(first.journal.entries())
            for _ in range(kills):
                self._kill(self._started(children), self.moments.uniform(0, lasts_s))

    def _started(self, children: Children, *, writes: int = 1000) -> Child:
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": self.java_options,
            "spark.sql.shuffle.partitions": "2",
        }
        ledger = self.ledger()
        spec = {
            "uri": self.uri,
            "options": OPTIONS,
            "settings": settings,
            "first": ledger.next_number,
            "living": sorted(ledger.living),
            "writes": writes,
        }
        child = children.start(SCRIPT, spec, deadline_s=DEADLINE_S)
        until("a session", lambda: child.journal.words() or child.code, within_s=DEADLINE_S)
        assert child.code is None, child.told()
        return child

    def _kill(self, child: Child, after_s: float) -> None:
        """Kill a driver; what is visible is whole writes, before anyone has recovered it."""
        time.sleep(after_s)
        assert child.code is None, child.told()
        child.kill()
        entries = child.journal.entries()
        jvm = Path(f"/proc/{entries[0]['jvm']}")
        until("the JVM sees it", lambda: not jvm.exists(), within_s=DEADLINE_S)
        self.journals.append(entries)
        check_rows(hoodoo.open_table(self.uri).to_arrow().to_pylist(), [self.ledger()])
        for instant in open_ref(self.uri).load_timeline().pending:
            if instant.action is not Action.ROLLBACK:
                self.pending[instant.requested_time] = instant.state.value


def test_drivers_killed_at_random_moments(
    tmp_path: Path, java_options: str, record_property: Callable[[str, object], None]
) -> None:
    chains = [
        Chain(tmp_path, kind, java_options, random.Random(f"{SEED} {kind}"))
        for kind in ("cow", "mor")
    ]
    with ThreadPoolExecutor(len(chains)) as pool:
        for done in [pool.submit(chain.run, KILLS // 2) for chain in chains]:
            done.result()
    for chain in chains:
        recover_wholly(chain.uri, OPTIONS, within_s=DEADLINE_S)
        check_rows(check_sound(chain.uri, OPTIONS), [chain.ledger()])
        timeline = open_ref(chain.uri).load_timeline()
        assert not [time for time in chain.pending if timeline.find(time)], "all rolled back"
    left = Counter(state for chain in chains for state in chain.pending.values())
    acknowledged = sum(chain.ledger().acknowledged for chain in chains)
    failed = sum((chain.ledger().failed for chain in chains), Counter[str]())
    record_property(
        "simulated",
        f"{KILLS} drivers killed, writes left: {dict(left)}, acknowledged: {acknowledged}, "
        f"failed: {dict(failed)}",
    )
    assert left["inflight"], "no driver was killed while it wrote"
