"""What must hold of a table at every moment, and once the dead are rolled back and swept.

The store is read directly: neither the reader nor the timeline code of the table is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hoodoo.concurrency.locks.lease import publish_budget_ms
from hoodoo.concurrency.locks.lock import Owner
from hoodoo.concurrency.transactions.head import read_content
from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.format import json_files
from hoodoo.format import json_files as lease_codec
from hoodoo.format.json_files import Lease
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.coordination import Decision, DecisionKind, HeartbeatBody
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import RollbackPlan
from hoodoo.storage.memory import MemoryStorage
from hoodoo_testing.simulator.checks.truth import (
    TIMELINE,
    StoredTable,
    data_file_time,
    list_timeline,
    parse_timeline_name,
    read_stored_table,
)
from hoodoo_testing.simulator.world.faults import StorageOperation
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.trace import TraceStep, process_of
from hoodoo_testing.simulator.world.world import World

FOREIGN = "hudi"
"""How the names of processes begin that are another engine's."""
_HOODOO_DIRECTORIES = (
    *(paths.STAGING, paths.COMPLETIONS, paths.FINALS, paths.SWEEPS, paths.PROBES),
    *(paths.BLOOMS, paths.STOPS, paths.GROUP_LOCKS),
)


def check_always(truth: StoredTable) -> None:
    """What holds whenever nobody is in the middle of a step."""
    instant_by_time: dict[InstantTime, Instant] = {}
    for instant in truth.completed:
        if instant.action is Action.SAVEPOINT:
            continue
        other = instant_by_time.setdefault(instant.requested_time, instant)
        if other is not instant:
            raise Violation(f"{instant.requested_time} is completed twice: {other}, {instant}")
        rollback = truth.rolled_back.get(instant.requested_time)
        if rollback is not None and not _is_earlier_attempt(truth, instant, rollback):
            raise Violation(f"{instant} is completed, and rolled back too")
    for path in sorted(truth.named_files() - truth.cleaned_files):
        if path not in truth.data_files:
            raise Violation(f"{path} is named by a commit, and not there")


def check_undisputed(truth: StoredTable) -> None:
    """Nobody even asks to roll a completed instant back; for tables of hoodoo's alone."""
    for instant in truth.completed:
        rollback = truth.to_roll_back.get(instant.requested_time)
        if rollback is not None and not _is_earlier_attempt(truth, instant, rollback):
            raise Violation(f"{instant} is completed, and rollback {rollback} is about it")


def _is_earlier_attempt(truth: StoredTable, instant: Instant, rollback: InstantTime) -> bool:
    """Whether a rollback was of an attempt at a plan that was executed again."""
    return instant.requested_time in truth.plans and rollback < instant.completion_or_requested_time


def check_plans(truth: StoredTable) -> None:
    """A compaction plan has every log file that was completed before it was requested.

    Such a log file belongs to the slice that the compaction replaces: its rows would be lost. All
    files of a plan are there.
    """
    there = {path.rpartition("/")[2] for path in truth.data_files}
    for time, plan in truth.compactions.items():
        plan_files = {name for each in plan.operations for name in each.delta_file_paths or ()}
        if missing_files := sorted(plan_files - there):
            raise Violation(f"plan {time} names {missing_files[0]}, which is not there")
        for commit, metadata in truth.commits.items():
            for partition, stat in metadata.stats():
                completion, name = truth.completion_of(commit), stat.file_name
                if not stat.is_log or not stat.file_id or completion is None or completion >= time:
                    continue
                is_planned = FileGroupId(partition, stat.file_id) in plan.file_groups()
                if is_planned and name not in plan_files:
                    raise Violation(f"plan {time} lacks {name}, completed at {completion}")


def check_settled(store: MemoryStorage, truth: StoredTable) -> None:
    """What holds once the dead are rolled back and all is swept."""
    completed_times = {instant.requested_time for instant in truth.completed}
    for instant in truth.instants:
        waits = instant.requested_time in truth.plans  # for whoever executes it
        has_ended = instant.requested_time in completed_times or instant.state is State.ABORTED
        if not has_ended and not waits:
            raise Violation(f"{instant} is still pending")
    strays = sorted(set(truth.data_files) - truth.named_files())
    if strays:
        raise Violation(f"files that no commit names: {', '.join(strays)}")
    for directory in (paths.HEARTBEATS, paths.MARKERS, *_HOODOO_DIRECTORIES):
        leftovers = [entry.path for entry in store.list(directory, recursive=True)]
        if leftovers:
            raise Violation(f"left behind: {', '.join(leftovers)}")


def check_rollbacks(truth: StoredTable, steps: Sequence[TraceStep]) -> None:
    """What an instant had written when its rollback looked at it is gone when that is done.

    The look is the reading of its workload profile, ahead of the listing of its partitions.
    """
    for target, rollback in truth.rolled_back.items():
        creation_steps: dict[str, int] = {}
        looks: dict[str, int] = {}
        for at, step in enumerate(steps):
            if not step.outcome.startswith("ok"):
                continue
            process = step.as_operation().process
            if data_file_time(step.path) == target:
                creation_steps.pop(step.path, None)
                if step.as_operation().mutates and step.verb != "delete":
                    creation_steps[step.path] = at
            elif _is_profile(step.path, target) and step.verb == "read":
                looks[process] = at
            elif step.path.startswith(f"{TIMELINE.active}/{rollback}_"):
                survivors = [
                    path for path, since in creation_steps.items() if since < looks.get(process, 0)
                ]
                if survivors and step.verb == "create":
                    raise Violation(f"{survivors[0]} outlived the rollback of {target}")


def _is_profile(path: str, target: str) -> bool:
    """Whether this is the inflight file of an instant."""
    return path.startswith(f"{TIMELINE.active}/{target}.") and path.endswith("inflight")


@dataclass
class Guard:
    """Watches each mutation as it lands; keeps what the store does not tell any more."""

    world: World
    is_mixed: bool = False
    """Whether engines that know no head are at work, beside which a moment may be wrong."""
    beats: dict[str, tuple[HeartbeatBody | None, int]] = field(default_factory=dict)
    started_instants: set[InstantTime] = field(default_factory=set)
    """Every instant that was ever on the timeline."""
    lease: tuple[Lease, int] | None = None
    """The lease that stands, and since when."""

    @property
    def store(self) -> MemoryStorage:
        return self.world.storage

    def __call__(self, operation: StorageOperation) -> None:
        """Check what this operation must not have done."""
        path = operation.path
        if data_file_time(path) is not None:
            self._data_file(operation)
        elif path.startswith(f"{paths.HEARTBEATS}/"):
            self._heartbeat(operation)
        elif path == paths.HEAD:
            self._head(operation)
        elif path == paths.LOCK:
            self._lock()
        elif path.startswith(f"{TIMELINE.active}/"):
            self._timeline(operation)

    def _data_file(self, operation: StorageOperation) -> None:
        if operation.verb != "delete":
            return
        truth = read_stored_table(self.store)
        if operation.path in truth.named_files() - truth.cleaned_files:
            raise Violation(f"{operation.path} was deleted, and a commit names it")

    def _heartbeat(self, operation: StorageOperation) -> None:
        """Nobody takes an instant from someone who lives."""
        path = operation.path
        before = self.beats.pop(path, None)
        if operation.verb == "delete":
            self._refuse_silenced(operation, before)
            return
        info = self.store.stat(path)
        beat = _beat(self.store.read(path))
        self.beats[path] = (beat, info.modified_ms)
        if before is None or before[0] is None or beat is None:
            return
        if before[0].owner != beat.owner:
            self._refuse_alive(path, before, info.modified_ms)

    def _refuse_alive(
        self, path: str, before: tuple[HeartbeatBody | None, int], now_ms: int
    ) -> None:
        beat, beaten_ms = before
        if now_ms < beaten_ms:
            return  # the store's clock went back, and nobody can tell
        if beat is not None and not beat.is_released and now_ms - beaten_ms <= beat.expiry_ms:
            raise Violation(f"{path} was taken from {beat}, {now_ms - beaten_ms} ms after its beat")

    def _refuse_silenced(
        self, operation: StorageOperation, before: tuple[HeartbeatBody | None, int] | None
    ) -> None:
        """Nobody deletes the heartbeat of someone else who lives, and is at work."""
        if before is None or before[0] is None or before[0].host == sender_of(operation):
            return
        time = InstantTime(operation.path.rpartition("/")[2])
        states = [
            instant for instant in list_timeline(self.store) if instant.requested_time == time
        ]
        is_pending = bool(states) and not any(instant.is_completed for instant in states)
        if (is_pending or time not in self.started_instants) and not is_foreign(operation):
            self._refuse_alive(operation.path, before, self.world.store_ms)

    def _lock(self) -> None:
        """Nobody takes the lock from a holder that may still publish."""
        before, self.lease = self.lease, None
        try:
            lease = lease_codec.decode_lock_file(self.store.read(paths.LOCK))
        except ObjectNotFound:
            return
        self.lease = (lease, self.world.now_ms)
        if before is None or before[0].expired or before[0].owner == lease.owner:
            return
        owner = Owner.parse(before[0].owner)
        if owner is None or owner.lease_ms is None:
            return
        age_ms = self.world.now_ms - before[1]
        if age_ms <= publish_budget_ms(owner.lease_ms):
            raise Violation(f"the lock was taken from {owner.host}, {age_ms} ms after its renewal")

    def _head(self, operation: StorageOperation) -> None:
        """Nobody decides to roll back what someone else is still at work on."""
        decision = json_files.decode(self.store.read(operation.path), Decision)
        is_request = decision.kind is DecisionKind.REQUEST
        if not is_request or not decision.path.endswith(".rollback.requested"):
            return
        plan = codec.decode(read_content(self.store, decision), Action.ROLLBACK, State.REQUESTED)
        assert isinstance(plan, RollbackPlan)
        assert plan.instant_to_rollback is not None
        path = paths.heartbeat(InstantTime(plan.instant_to_rollback.commit_time))
        heartbeat = self.beats.get(path)
        if heartbeat is None or heartbeat[0] is None:
            return
        if heartbeat[0].host != sender_of(operation):  # a write may roll itself back
            self._refuse_alive(path, heartbeat, self.store.stat(operation.path).modified_ms)

    def _timeline(self, operation: StorageOperation) -> None:
        instant = parse_timeline_name(operation.path.rpartition("/")[2], layout=2)
        if instant is None:
            return
        if operation.verb == "delete":
            if instant.is_completed and not self.is_mixed and not self._may_leave(instant):
                raise Violation(f"{instant} was taken back, though all know the head")
            return
        self.started_instants.add(instant.requested_time)
        is_requested = instant.action is Action.ROLLBACK and instant.state is State.REQUESTED
        if self.is_mixed or not (instant.is_completed or is_requested):
            return
        truth = read_stored_table(self.store)
        check_always(truth)
        check_undisputed(truth)
        if not instant.is_completed:
            return
        later = [
            i
            for i in truth.completed
            if i.completion_or_requested_time > instant.completion_or_requested_time
        ]
        if later:
            raise Violation(f"{instant} appears after {later[0]}, which was completed later")

    def _may_leave(self, instant: Instant) -> bool:
        """Whether a completed file may go: into the history, by a restore, or with a savepoint."""
        truth, time = read_stored_table(self.store), instant.requested_time
        is_known = time in truth.archived_completions or time in truth.taken_back
        return is_known or instant.action is Action.SAVEPOINT


def sender_of(operation: StorageOperation) -> str:
    """The process that asked for an operation, even for one that lands late."""
    return process_of(operation.actor.partition("@")[0])


def is_foreign(operation: StorageOperation) -> bool:
    """Whether another engine asked for it."""
    return sender_of(operation).startswith(FOREIGN)


def _beat(data: bytes) -> HeartbeatBody | None:
    try:
        return json_files.decode(data, HeartbeatBody)
    except FormatError:
        return None
