"""The same with processes of this machine, and a table on its disk."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.laboratory import NeverHappened, find_pending
from support.processes import Children, until

import hoodoo
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.upkeep import run_due_services
from hoodoo.table.ref import open_ref

SCRIPT = Path(__file__).with_name("other_process.py")
DEADLINE_S = 60
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
QUICK_EXPIRY = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
    "hoodie.clean.commits.retained": 1,
}
"""A restore waits for seconds until commits are old enough; and few commits are kept."""


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    """Processes that end with the test."""
    with Children(tmp_path) as running:
        yield running


def read_values(place: Path, *, as_of: str | None = None) -> dict[str, int]:
    read = hoodoo.open_table(str(place)).to_arrow(columns=["id", "v"], as_of=as_of)
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.1: upkeep that comes by while a restore waits deletes what the restore goes back to",
)
def test_upkeep_while_another_process_restores_keeps_the_rows_of_its_target(
    tmp_path: Path, children: Children
) -> None:
    place = tmp_path / "table"
    options = {**QUICK_EXPIRY, "hoodie.clean.automatic": False}
    table = hoodoo.create_table(str(place), schema=SCHEMA, record_key="id", options=options)
    instants = [
        table.upsert(pa.table({"id": ["a", f"new {v}"], "v": [v, v]})).instant for v in range(5)
    ]
    expected = read_values(place, as_of=instants[1])
    spec = {"uri": str(place), "options": options, "target": instants[1]}
    restorer = children.start(SCRIPT, spec, deadline_s=DEADLINE_S)
    timeline = place / ".hoodie" / "timeline"
    try:
        until("the restore starts", lambda: any(timeline.glob("*.restore.*")), within_s=DEADLINE_S)
    except AssertionError as error:
        raise NeverHappened(restorer.told()) from error
    for _ in run_due_services(open_ref(str(place), QUICK_EXPIRY), LocalEngine(threads=1)):
        pass
    if restorer.end(within_s=DEADLINE_S) != 0:
        raise NeverHappened(restorer.told())
    assert read_values(place) == expected


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: a writer whose process on this machine is gone counts as alive for ten minutes",
)
def test_recovery_ends_the_write_of_a_process_of_this_machine_that_is_gone(
    tmp_path: Path, children: Children
) -> None:
    place = tmp_path / "table"
    table = hoodoo.create_table(str(place), schema=SCHEMA, record_key="id")
    table.insert(pa.table({"id": ["a"], "v": [1]}))
    spec: dict[str, object] = {"uri": str(place), "options": {}, "keys": ["a"]}
    writer = children.start(SCRIPT, spec, deadline_s=DEADLINE_S)
    if writer.end(within_s=DEADLINE_S) != -signal.SIGKILL or not find_pending(table):
        raise NeverHappened(writer.told())
    table.recover()
    assert find_pending(table) == []
