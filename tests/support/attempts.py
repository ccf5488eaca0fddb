"""One upsert of one file, driven step by step, and attempts at it that can be held up anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hoodoo.format.markers import Digest
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.runtime.engine import LocalEngine
from hoodoo.storage.traced import TracedStorage
from hoodoo.write.commit.begin import StartedWrite, begin
from hoodoo.write.commit.publish import commit
from hoodoo.write.execute import build_context, delete_markers_and_heartbeat, read_previous_slices
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.finalize import finalize
from hoodoo.write.files.handle import HandleTask, run_handle
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import RoutedWrite, locate, route_rows
from hoodoo.write.planning.prepare import prepare
from support.writer_machines import Fleet, Machine, rows

Before = Callable[[str, str], None]


class RepeatingEngine(LocalEngine):
    """Tasks run once, but nobody knows."""

    may_repeat_tasks = True


@dataclass
class Driver:
    """A machine that has begun an upsert of k1 to 2, of one file group."""

    machine: Machine
    begun: StartedWrite
    context: WriteContext
    planned: RoutedWrite

    @classmethod
    def begin(cls, fleet: Fleet, **options: object) -> Driver:
        machine = fleet.machine("driver", **options)
        ref, engine = machine.ref, LocalEngine(threads=1)
        target = WriteTarget.load(ref)
        incoming, schema = prepare(ref, rows(k1=2), target.snapshot.schema)
        located = locate(target, incoming, engine)
        planned = route_rows(target, OperationType.UPSERT, schema, incoming, located)
        begun = begin(ref, planned.assignment)
        context = build_context(ref, begun, repeats=True)
        return cls(machine, begun, context, planned)

    def attempt(
        self,
        machine: Machine,
        number: int,
        *,
        digest: Digest | None = None,
        before: Before = lambda verb, path: None,
    ) -> Sequence[WriteStat]:
        """An attempt at the one handle, on some machine."""
        env = replace(machine.ref.env, storage=TracedStorage(machine.storage, before=before))
        ref = replace(machine.ref, env=env)
        context = replace(self.context, ref=ref)
        ((write, read),) = read_previous_slices(self.planned.assignment, context)
        assert read is not None
        changes = self.planned.changes[write.index]
        task = HandleTask(context, write, changes, replace(read, env=env), number, digest=digest)
        return run_handle(task)

    def finalize(self, stats: Sequence[WriteStat]) -> None:
        finalize(self.machine.ref.env, self.begun.time, stats, repeats=True)

    def commit(self, stats: Sequence[WriteStat]) -> None:
        engine = LocalEngine(threads=1)
        schema_json = self.context.schema_json
        commit(self.machine.ref, self.begun, engine, stats, schema_json=schema_json)
        delete_markers_and_heartbeat(self.machine.ref, self.begun, repeats=True)


def fleet(partition_by: str | None = "part") -> Fleet:
    """A table with one row."""
    made = Fleet(partition_by=partition_by)
    made.machine("first").table.insert(rows(k1=1))
    return made
