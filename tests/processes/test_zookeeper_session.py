"""A writer loses its ZooKeeper session in the middle of its commit: no commit is lost or doubled.

One process stops itself inside the gate, until its session is over and others may have the lock.
Another one writes to the same file group; then the first one goes on. With a `LONG` heartbeat it
counts as alive all the while; with a `SHORT` one as dead, and the other process rolls it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from processes.blocks import SCHEMA, Ledger, check_rows, rows_of
from processes.table_checks import check_sound, recover_wholly
from support.processes import Child, Children, until
from support.writer_machines import COMPLETED

import hoodoo
from hoodoo.concurrency.heartbeats import load_writer_statuses
from hoodoo.concurrency.locks.lock import Lock
from hoodoo.concurrency.locks.table_lock import make_lock
from hoodoo.errors import LockTimeout
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.slow, pytest.mark.server]

DEADLINE_S = 60
Write = tuple[int, str, int]
SCRIPT = Path(__file__).with_name("victim.py")
BEFORE_HEAD = ("replace", r"/hoodoo/head$")
BEFORE_COMPLETED = ("create", COMPLETED)
AFTER_COMPLETED = ("after create", COMPLETED)
LONG, SHORT, SHORTEST = 10, 2, 1  # seconds of silence after which a writer counts as dead
ONE, OTHER = 1, 3  # blocks with rows in one file group; the first also has some in another


class Table:
    """A table whose lock is in ZooKeeper, and the two processes that write to it."""

    def __init__(self, place: Path, server: ZooKeeperServer, children: Children, kind: str) -> None:
        self.uri = str(place)
        self._children = children
        lock = "hoodie.write.lock"
        self._options: Mapping[str, object] = {
            f"{lock}.provider": "zookeeper",
            f"{lock}.zookeeper.url": server.address,
            f"{lock}.zookeeper.base_path": f"/hudi{place}",
            "hoodie.client.heartbeat.interval_in_ms": 1000,
            "hoodie.write.num.retries.on.conflict.failures": 2,
        }
        table = hoodoo.create_table(
            self.uri, schema=SCHEMA, record_key="id", partition_by="part", table_type=kind
        )
        for block in (ONE, OTHER):
            table.insert(rows_of((0, block), block))
        groups = [group.partition for group in table.files().groups]
        assert groups == ["part=own0", "part=shared1"]
        self.ref: TableRef = open_ref(self.uri, self.options(SHORT))

    def options(self, misses: int, *, session_ms: int = 1500) -> dict[str, object]:
        return {
            **self._options,
            "hoodie.write.lock.zookeeper.session_timeout_ms": session_ms,
            "hoodie.client.heartbeat.tolerable.misses": misses,
        }

    def start(self, write: Write, options: Mapping[str, object], **fate: object) -> Child:
        spec = {"uri": self.uri, "options": options, "writer": 0, "writes": [write]}
        return self._children.start(SCRIPT, {**spec, **fate}, deadline_s=DEADLINE_S)

    def paused(self, at: tuple[str, str], misses: int, **fate: object) -> Child:
        """A writer that has stopped inside the gate, and whose session is over."""
        child = self.start((10, "upsert", ONE), self.options(misses), stops=[at], **fate)
        assert child.wait_until_idle(within_s=DEADLINE_S), child.told()
        lock = make_lock(self.ref, "look")
        until("its session is over", lambda: _is_free(lock), within_s=DEADLINE_S)
        return child

    def wait_until_dead(self) -> None:
        """Wait until others may roll the pending instant back."""
        (instant,) = self.ref.load_timeline().pending

        def is_dead() -> bool:
            return load_writer_statuses(self.ref, [instant])[instant.requested_time].is_dead

        until("it counts as dead", is_dead, within_s=DEADLINE_S, every_s=0.1)

    def check(self, *children: Child) -> None:
        """The rows are those of acknowledged writes, as seen by hoodoo and the wheel."""
        options = self.options(SHORTEST)
        recover_wholly(self.uri, options, within_s=DEADLINE_S)
        made = [
            [{"word": "intent", "number": n, "kind": "insert", "block": n}, {"word": "ack"}]
            for n in (ONE, OTHER)
        ]
        noted = [[e for e in c.journal.entries() if "number" in e] for c in children]
        check_rows(check_sound(self.uri, options), [Ledger.of(0, [*made, *noted])])


@pytest.fixture
def table(
    zookeeper_server: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Table]:
    kind = getattr(request, "param", "cow")
    with Children(tmp_path) as children:
        yield Table(tmp_path / "trips", zookeeper_server, children, kind)


NIGHT = pytest.mark.nightly
BOTH = pytest.mark.parametrize("table", ["cow", pytest.param("mor", marks=NIGHT)], indirect=True)


def _is_free(lock: Lock) -> bool:
    try:
        return lock.holder() is None
    except LockTimeout:  # the connection was lost for a moment
        return False


def outcome(child: Child) -> str:
    """How the only write of a process ended: "ack", or the name of the error."""
    assert child.end(within_s=DEADLINE_S) == 0, child.told()
    last = child.journal.entries()[-2]
    return str(last.get("error", last["word"]))


@pytest.mark.parametrize("misses", [LONG, SHORT])
def test_lost_before_the_head_the_writer_looks_again(table: Table, misses: int) -> None:
    """Whatever others decided meanwhile, it looks again: rolled back, or planned anew."""
    paused = table.paused(BEFORE_HEAD, misses)
    if misses is SHORT:
        table.wait_until_dead()
    other = table.start((11, "upsert", OTHER), table.options(misses))
    assert outcome(other) == "ack"
    paused.resume()
    expected = {"HeartbeatLost"} if misses is SHORT else {"ack", "HeartbeatLost"}  # if slow
    assert outcome(paused) in expected
    table.check(other, paused)


@pytest.mark.parametrize(
    ("table", "block", "misses"),
    [
        ("cow", ONE, SHORT),
        ("mor", OTHER, LONG),
        pytest.param("cow", OTHER, LONG, marks=NIGHT),
        pytest.param("mor", ONE, LONG, marks=NIGHT),
        pytest.param("mor", OTHER, SHORT, marks=NIGHT),
        pytest.param("cow", ONE, LONG, marks=NIGHT),
        pytest.param("cow", OTHER, SHORT, marks=NIGHT),
        pytest.param("mor", ONE, SHORT, marks=NIGHT),
    ],
    indirect=["table"],
)
def test_lost_before_the_completed_file_the_next_writer_finishes_the_commit(
    table: Table, block: int, misses: int
) -> None:
    """It has decided: whoever comes next finishes that, and goes on top of it."""
    paused = table.paused(BEFORE_COMPLETED, misses)
    if misses is SHORT:
        table.wait_until_dead()
    other = table.start((11, "upsert", block), table.options(misses))
    assert outcome(other) == "ack"
    paused.resume()
    assert outcome(paused) == "ack"
    table.check(paused, other)


@BOTH
def test_lost_while_another_is_about_to_complete_one_of_them_commits(table: Table) -> None:
    """Both are about to create their completed files, and neither knows of the other."""
    paused = table.paused(BEFORE_COMPLETED, LONG)
    options = table.options(LONG, session_ms=30_000)
    other = table.start((11, "upsert", OTHER), options, stops=[BEFORE_COMPLETED])
    is_stopped = other.wait_until_idle(within_s=DEADLINE_S)
    paused.resume()
    outcomes = {outcome(paused)}
    if is_stopped:
        other.resume()
    outcomes.add(outcome(other))
    assert "ack" in outcomes
    table.check(paused, other)


@pytest.mark.parametrize("misses", [pytest.param(LONG, marks=NIGHT), SHORT])
def test_lost_after_the_completed_file_the_commit_stands(table: Table, misses: int) -> None:
    """Others build on its commit, and take away what is left of it, before it knows of it."""
    paused = table.paused(AFTER_COMPLETED, misses)
    other = table.start((11, "upsert", OTHER), table.options(misses))
    assert outcome(other) == "ack"
    if misses is SHORT:
        recover_wholly(table.uri, table.options(SHORT), within_s=DEADLINE_S)
    paused.resume()
    assert outcome(paused) == "ack"
    table.check(paused, other)
