"""Appends through a data source: begun, written, committed and given up in separate processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import ClassVar

import pyarrow as pa

from hoodoo.errors import CommitUnknown, HoodooError
from hoodoo.model.commit import WriteStat
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.write.detached import (
    DetachedWrite,
    abandon_detached,
    begin_detached,
    commit_detached,
    write_rows,
)
from hoodoo_testing.simulator.actors.cluster import Work, move_context
from hoodoo_testing.simulator.actors.tables import EXPIRY_MS, SCHEMA, Write
from hoodoo_testing.simulator.checks.invariants import Guard
from hoodoo_testing.simulator.scenarios.repeated_tasks import OnCluster
from hoodoo_testing.simulator.world.faults import FaultKind, StorageOperation
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.trace import process_of
from hoodoo_testing.simulator.world.world import ActorAction, World

_LOOK_S = 2.0
_PARTS = 2
_PROCESSES = ("committer", "aborter")


class _Turn(Enum):
    """Whose turn it is."""

    BEGIN = "begin"
    WRITE = "write"
    COMMIT = "commit"
    ABORT = "abort"
    NOBODY = "nobody"


class _AppendGuard(Guard):
    """An append may be rolled back by a process of its own that did not beat last."""

    def _head(self, operation: StorageOperation) -> None:
        if process_of(operation.actor.partition("@")[0]) not in _PROCESSES:
            super()._head(operation)


class Append(OnCluster):
    """A bulk insert of two parts, two attempts of each."""

    name = "append"
    twins = True
    is_watched = False
    row_s: ClassVar[float] = 0.0
    """How long a task waits for each row."""
    write = Write(1, ("x1", "x2", "x3", "x4"), parts=("q", "r"), operation="append")

    def __init__(self) -> None:
        super().__init__()
        self.ledger.writes[self.write.v] = self.write
        self._turn = _Turn.BEGIN
        self._begun: DetachedWrite | None = None
        self._stats: Sequence[WriteStat] = ()

    def setup(self, world: World) -> None:
        super().setup(world)
        world.watch(_AppendGuard(world))

    def actors(self) -> Mapping[str, ActorAction]:
        executors = {f"e{n}": self.cluster.executor() for n in range(1, self.executors + 1)}
        return {
            "planner": self._begin,
            "w": self.cluster.driver(self._drive),
            "committer": self._commit,
            "aborter": self._abort,
            **executors,
            **self.more_actors(),
        }

    def _begin(self, env: Env) -> None:
        try:
            self._begun = begin_detached(self.table(env)._ref, SCHEMA)
        except HoodooError as error:
            self.ledger.refusals[self.write.v] = str(error)
        finally:
            self._turn = _Turn.WRITE if self._begun else _Turn.NOBODY

    def _drive(self, env: Env) -> None:
        """As Spark does it: it waits for the tasks, and knows nothing of the table."""
        if not self._wait_for_turn(env, _Turn.WRITE):
            return
        following = _Turn.NOBODY  # if it dies
        try:
            stats_of_parts = self.cluster.run(env, [self._part(number) for number in range(_PARTS)])
            self._stats = [stat for stats in stats_of_parts for stat in stats]
            following = _Turn.COMMIT
        except HoodooError as error:
            self.ledger.refusals[self.write.v] = str(error)
            following = _Turn.ABORT
        finally:
            self._turn = following

    def _part(self, number: int) -> Work:
        def batches(env: Env) -> Iterator[pa.RecordBatch]:
            for batch in _rows(self.write, number):
                env.clock.sleep(self.row_s)
                yield batch

        def work(env: Env, attempt: int) -> object:
            return write_rows(self._at(env), batches(env), number=number, attempt=attempt)

        return work

    def _commit(self, env: Env) -> None:
        if not self._wait_for_turn(env, _Turn.COMMIT):
            return
        following = _Turn.ABORT  # Spark asks for it whatever went wrong
        try:
            result = commit_detached(self._at(env), self._stats, LocalEngine(threads=1))
            self.ledger.acknowledgements[self.write.v] = result.requested_time
            following = _Turn.NOBODY
        except CommitUnknown:
            pass
        except HoodooError as error:
            self.ledger.refusals[self.write.v] = str(error)
        finally:
            self._turn = following

    def _abort(self, env: Env) -> None:
        if self._wait_for_turn(env, _Turn.ABORT):
            abandon_detached(self._at(env))

    def _wait_for_turn(self, env: Env, turn: _Turn) -> bool:
        """Wait for a turn; False if it does not come."""
        order = list(_Turn)
        while order.index(self._turn) < order.index(turn):
            env.clock.sleep(_LOOK_S)
        return self._turn is turn

    def _at(self, env: Env) -> DetachedWrite:
        """The write as it arrives at a process."""
        assert self._begun is not None
        return replace(self._begun, context=move_context(self._begun.context, env))


class SlowAppend(Append):
    """The same with rows that come slowly, and one who looks for the dead; nobody dies."""

    name = "slow-append"
    row_s = EXPIRY_MS / 1000 / 2
    executors = 4
    chances = Chances({FaultKind.PAUSE: 0.004, FaultKind.SLOW_RESPONSE: 0.004}, pause_ms=20_000)

    def more_actors(self) -> Mapping[str, ActorAction]:
        return {"m1": self.medic(after_ms=EXPIRY_MS + 10_000)}


class AppendStrays(Append):
    """The same with long pauses, and others who roll back what seems dead, and write."""

    name = "append-strays"
    chances = Chances(
        {FaultKind.PAUSE: 0.03, FaultKind.CRASH_BEFORE: 0.01, FaultKind.SLOW_RESPONSE: 0.01},
        pause_ms=300_000,
    )

    def more_actors(self) -> Mapping[str, ActorAction]:
        return {
            "m1": self.medic(after_ms=EXPIRY_MS + 10_000),
            "m2": self.medic(after_ms=3 * EXPIRY_MS),
            "next": self.later(Write(2, ("a", "z", "y"), parts=("p", "q")), after_ms=2 * EXPIRY_MS),
        }


def _rows(write: Write, number: int) -> list[pa.RecordBatch]:
    """Every second row of a write, one by one, as a task gets them."""
    rows = write.rows()
    return [rows.slice(n, 1).to_batches()[0] for n in range(number, rows.num_rows, _PARTS)]


SCENARIOS = (Append, SlowAppend, AppendStrays)
