"""Writes on a cluster: tasks that are repeated, run twice at once, and outlive their write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.errors import CommitUnknown, HoodooError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import StopSignal
from hoodoo.runtime.env import Env
from hoodoo.table.ref import open_ref
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer, execute
from hoodoo.write.files.bulk_insert import HASH, StreamTask, write_stream
from hoodoo.write.files.context import WriteContext
from hoodoo.write.planning.assignment import Assignment
from hoodoo.write.retry import run_with_retries
from hoodoo_testing.simulator.actors.cluster import (
    Cluster,
    ClusterEngine,
    Work,
    driver_env,
    move_context,
)
from hoodoo_testing.simulator.actors.tables import EXPIRY_MS, OPTIONS, SCHEMA, TableScenario, Write
from hoodoo_testing.simulator.checks.truth import read_stored_table
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.world.faults import FaultKind
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, World

_HARMLESS = (FaultKind.PAUSE, FaultKind.SLOW_RESPONSE, FaultKind.JUMP)
"""Whoever they befall goes on afterwards."""
_STREAMS = 2


class OnCluster(TableScenario):
    """A driver with executors; subclasses say what it writes, and what else happens."""

    twins: ClassVar[bool] = False
    reruns: ClassVar[bool] = False
    dawdles: ClassVar[bool] = False
    executors: ClassVar[int] = 3
    write: ClassVar[Write] = Write(1, ("a", "x", "b"), parts=("p", "q"))
    chances = Chances(
        {
            **dict.fromkeys((FaultKind.PAUSE, FaultKind.SLOW_RESPONSE), 0.01),
            **dict.fromkeys(
                (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.CRASH_IN_FLIGHT), 0.004
            ),
            **dict.fromkeys(
                (FaultKind.LOST_REQUEST, FaultKind.LOST_RESPONSE, FaultKind.STRAGGLER), 0.004
            ),
        },
        pause_ms=200_000,
        delay_ms=40_000,
    )

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(self.twins, self.reruns, self.dawdles)

    def actors(self) -> Mapping[str, ActorAction]:
        executors = {f"e{n}": self.cluster.executor() for n in range(1, self.executors + 1)}
        return {
            "w": self.cluster.driver(self.writer(self.write)),
            **executors,
            **self.more_actors(),
        }

    def more_actors(self) -> Mapping[str, ActorAction]:
        """Who else there is."""
        return {}

    def writer(self, *writes: Write, **options: object) -> ActorAction:
        """An actor that writes on the cluster as long as there is one."""
        for write in writes:
            self.ledger.writes[write.v] = write

        def act(env: Env) -> None:
            if self.cluster.is_closed:
                table = self.table(env, **options)
            else:
                env = driver_env(self.cluster, env)
                table = Table(self.table(env, **options)._ref, ClusterEngine(self.cluster, env))
            for write in writes:
                self._write(table, write)

        return act

    def check(self, world: World, outcome: RunOutcome) -> None:
        kinds = {fault.kind for fault in outcome.script.faults.values()}
        if not kinds and self.write.v not in self.ledger.acknowledgements:
            raise Violation(f"nothing went wrong, and yet: {self.ledger.refusals}")
        if kinds <= {*_HARMLESS}:
            _check_no_strays(world)
        if not {
            i.requested_time for i in read_stored_table(world.storage).instants if i.is_pending
        }:
            world.do("early reader", self._check_rows)
        super().check(world, outcome)


def _check_no_strays(world: World) -> None:
    """Delays and repetitions alone leave nothing for a sweep, once all have ended."""
    truth = read_stored_table(world.storage)
    pending = {instant.requested_time for instant in truth.instants} - {
        instant.requested_time for instant in truth.completed
    }
    commit_files = truth.named_files()
    for path, time in truth.data_files.items():
        if path not in commit_files and time not in pending:
            raise Violation(f"{path} was left, though nobody died")


class ClusterUpsert(OnCluster):
    """An upsert of two file groups on a cluster."""

    name = "cluster-upsert"


class ClusterUpsertMor(OnCluster):
    """The same on a merge-on-read table: one log file, one new file group."""

    name = "cluster-upsert-mor"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


class Speculation(OnCluster):
    """Two attempts of each task at once."""

    name = "speculation"
    twins = True


class SpeculationBatched(Speculation):
    """The same with batched markers."""

    name = "speculation-batched-markers"
    options = MappingProxyType({"hoodie.write.markers.type": "timeline_server_based"})


class SlowTasks(OnCluster):
    """Two attempts of each task, of which one rests somewhere, as the driver does."""

    name = "dawdlers"
    twins = True
    dawdles = True
    executors = 4
    chances = Chances(
        {FaultKind.PAUSE: 0.002, FaultKind.SLOW_RESPONSE: 0.002}, at_most=1, pause_ms=10_000
    )


class DawdlersMor(SlowTasks):
    """The same on a merge-on-read table."""

    name = "dawdlers-mor"
    table_type = "mor"
    options = MappingProxyType({"hoodie.parquet.small.file.limit": 0})


class Rerun(OnCluster):
    """All tasks run once more while their write is finalized and committed."""

    name = "rerun"
    reruns = True
    dawdles = True
    chances = Chances({FaultKind.PAUSE: 0.02, FaultKind.SLOW_RESPONSE: 0.02}, pause_ms=100_000)


class RerunReturnsStats(Rerun):
    """The same; those that come late are told what was written."""

    name = "rerun-told"
    options = MappingProxyType({"hoodie.write.fail.on.finalize.marker": False})


class Strays(OnCluster):
    """A driver that may die or seem to, tasks that go on, and one who cleans up meanwhile."""

    name = "strays"
    twins = True
    chances = Chances(
        {FaultKind.PAUSE: 0.03, FaultKind.CRASH_BEFORE: 0.01, FaultKind.SLOW_RESPONSE: 0.01},
        pause_ms=300_000,
    )

    def more_actors(self) -> Mapping[str, ActorAction]:
        return {
            "m1": self.medic(after_ms=EXPIRY_MS + 10_000),
            "m2": self.medic(after_ms=3 * EXPIRY_MS),
            "next": self.later(Write(2, ("c", "y")), after_ms=2 * EXPIRY_MS),
        }


class BulkStream(OnCluster):
    """A bulk insert in streams, two attempts of each at once."""

    name = "bulk-stream"
    twins = True
    dawdles = True
    write = Write(1, ("x1", "x2", "x3", "x4"), parts=("q", "r"), operation="bulk")

    def _write(self, table: Table, write: Write) -> None:
        if write.operation != "bulk":
            super()._write(table, write)
            return
        env = table._ref.env
        try:
            result = run_with_retries(
                table._ref, OperationType.BULK_INSERT, lambda _: self._bulk(env, write)
            )
        except CommitUnknown:
            return
        except HoodooError as error:
            self.ledger.refusals[write.v] = str(error)
            return
        self.ledger.acknowledgements[write.v] = result.instant

    def _bulk(self, env: Env, write: Write) -> CommitResult:
        ref = open_ref(env.storage.uri, {**OPTIONS, **self.options}, env)
        assignment = Assignment(OperationType.BULK_INSERT, take_snapshot(ref), SCHEMA)
        batches = _batches(write)

        def stage(context: WriteContext, stop: StopSignal) -> Sequence[WriteStat]:
            results = self.cluster.run(env, [_stream(context, n, batches) for n in range(_STREAMS)])
            return [stat for stats in results for stat in stats]

        return execute(ref, assignment, stage, ClusterEngine(self.cluster, env), PhaseTimer(env))


def _stream(context: WriteContext, number: int, batches: Sequence[pa.Table]) -> Work:
    def work(env: Env, attempt: int) -> object:
        task = StreamTask(move_context(context, env), number, attempt)
        return write_stream(task, batches[number::_STREAMS])

    return work


def _batches(write: Write) -> list[pa.Table]:
    """The rows of a write one by one, as a stream brings them."""
    rows = write.rows()
    places = pa.array([f"part={part}" for part in rows["part"].to_pylist()])
    hashes = pa.array(range(rows.num_rows), pa.int64())
    full = (
        rows.append_column(RECORD_KEY, rows["id"])
        .append_column(PARTITION_PATH, places)
        .append_column(HASH, hashes)
    )
    return [full.slice(n, 1) for n in range(full.num_rows)]


SCENARIOS = (
    ClusterUpsert,
    ClusterUpsertMor,
    Speculation,
    SpeculationBatched,
    SlowTasks,
    DawdlersMor,
    Rerun,
    RerunReturnsStats,
    Strays,
    BulkStream,
)
