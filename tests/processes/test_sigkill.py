"""A writer is killed at one of its storage operations; another process puts things right."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from processes.blocks import SCHEMA, Ledger, check_rows, rows_of
from processes.table_checks import check_sound, recover_wholly
from support.processes import Children, Journal

import hoodoo
from hoodoo.model.instant import Action
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.slow

KILLS, KILLS_AT_NIGHT = 12, 40
DEADLINE_S = 60
SCRIPT = Path(__file__).with_name("victim.py")
RECOVERY: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
}
OPTIONS: Mapping[str, object] = {  # of victims: their leases end soon, those of others need not
    **RECOVERY,
    "hoodie.write.lock.storage.validity.timeout.secs": 4,
    "hoodie.write.lock.storage.renew.interval.secs": 1,
}
WRITES = [(1, "insert", 1), (2, "upsert", 0), (3, "delete", 0), (4, "upsert", 1)]
BEFORE = {"word": "intent", "number": 0, "kind": "insert", "block": 0}, {"word": "ack"}


class Victim(NamedTuple):
    """A table, the process that is to be killed while it writes there, and when that is."""

    place: Path
    die_at: int

    @property
    def journal(self) -> Journal:
        return Journal(self.place.with_suffix(".journal"))

    def spec(self) -> dict[str, object]:
        journal = str(self.journal.path)
        return {"uri": str(self.place), "die_at": self.die_at, "journal": journal}


def made(place: Path, kind: str) -> Path:
    table = hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="part", table_type=kind
    )
    table.insert(rows_of((0, 0), 0))
    return place


def run(children: Children, template: Path, victims: Sequence[Victim]) -> list[int]:
    """Let victims write, each to a copy of the table, in two processes; how they ended."""
    for victim in victims:
        shutil.copytree(template, victim.place)
    shared = {"options": OPTIONS, "writer": 0, "writes": WRITES, "deadline_s": DEADLINE_S}
    hosts = []
    for part in filter(None, (victims[::2], victims[1::2])):
        spec = {**shared, "victims": [victim.spec() for victim in part]}
        hosts.append(children.start(SCRIPT, spec, deadline_s=2 * DEADLINE_S))
    for host in hosts:
        assert host.end(within_s=2 * DEADLINE_S) == 0, host.told()
    return [entry["code"] for host in hosts for entry in host.journal.entries()]


def check_recovered(victim: Victim) -> tuple[int, int]:
    """How many writes were acknowledged, and how many instants were rolled back."""
    uri = str(victim.place)
    ledger = Ledger.of(0, [[*BEFORE, *victim.journal.entries()]])
    recover_wholly(uri, RECOVERY, within_s=DEADLINE_S)
    check_rows(check_sound(uri, RECOVERY), [ledger])
    hoodoo.open_table(uri).upsert(rows_of((0, 9), 9))
    timeline = open_ref(uri).load_timeline()
    return ledger.acknowledged, sum(i.action is Action.ROLLBACK for i in timeline)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("kills", [KILLS, pytest.param(KILLS_AT_NIGHT, marks=pytest.mark.nightly)])
def test_a_writer_killed_at_any_operation_is_recovered(
    tmp_path: Path, kind: str, kills: int
) -> None:
    template = made(tmp_path / "template", kind)
    with Children(tmp_path) as children:
        whole = Victim(tmp_path / "whole", die_at=0)
        assert run(children, template, [whole]) == [0]
        total = whole.journal.entries()[-1]["operations"]
        assert whole.journal.words().count("ack") == len(WRITES)
        victims = [
            Victim(tmp_path / f"table-{n}", die_at=1 + n * total // kills) for n in range(kills)
        ]
        assert run(children, template, victims) == [-signal.SIGKILL] * kills
    with ThreadPoolExecutor(kills) as pool:
        outcomes = list(pool.map(check_recovered, victims))
    acknowledged = {outcome[0] for outcome in outcomes}
    rolled_back = sum(outcome[1] for outcome in outcomes)
    assert acknowledged == set(range(1, len(WRITES) + 1)), "kills are spread over all writes"
    assert rolled_back > kills // 5  # others are killed in the middle of a service
    print(f"\n{kind}: {kills} kills over {total} operations, {rolled_back} writes rolled back")
