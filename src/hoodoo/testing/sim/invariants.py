"""What must hold of a table at every moment, and once the dead are rolled back and swept.

The store is read directly: neither the reader nor the timeline code of the table is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hoodoo.concurrency.lease import publish_budget_ms
from hoodoo.concurrency.owner import Owner
from hoodoo.errors import FormatError, NotFound
from hoodoo.format import json_object
from hoodoo.format import lease as lease_codec
from hoodoo.format import timeline as codec
from hoodoo.format.lease import Lease
from hoodoo.model import paths
from hoodoo.model.attempt import HeartbeatBody
from hoodoo.model.decision import Decision, DecisionKind
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import (
    RollbackPlan,
)
from hoodoo.storage.memory import MemoryStorage
from hoodoo.testing.sim.faults import Operation
from hoodoo.testing.sim.stage import Violation
from hoodoo.testing.sim.trace import Step, process_of
from hoodoo.testing.sim.truth import (
    TIMELINE,
    Truth,
    data_file_time,
    list_timeline,
    look,
    parse_timeline_name,
)
from hoodoo.testing.sim.world import World
from hoodoo.timeline.head import read_content

FOREIGN = "hudi"
"""How the names of processes begin that are another engine's."""
_OWN = (
    *(paths.STAGED, paths.COMPLETIONS, paths.FINALS, paths.SWEEPS, paths.PROBES),
    *(paths.BLOOMS, paths.STOPS, paths.GROUP_LOCKS),
)


def check_always(truth: Truth) -> None:
    """What holds whenever nobody is in the middle of a step."""
    seen: dict[InstantTime, Instant] = {}
    for instant in truth.completed:
        if instant.action is Action.SAVEPOINT:
            continue
        other = seen.setdefault(instant.requested_time, instant)
        if other is not instant:
            raise Violation(f"{instant.requested_time} is completed twice: {other}, {instant}")
        rollback = truth.rolled_back.get(instant.requested_time)
        if rollback is not None and not _is_earlier_attempt(truth, instant, rollback):
            raise Violation(f"{instant} is completed, and rolled back too")
    for path in sorted(truth.named_files() - truth.cleaned):
        if path not in truth.data_files:
            raise Violation(f"{path} is named by a commit, and not there")


def check_undisputed(truth: Truth) -> None:
    """Nobody even asks to roll a completed instant back; for tables of hoodoo's alone."""
    for instant in truth.completed:
        rollback = truth.to_roll_back.get(instant.requested_time)
        if rollback is not None and not _is_earlier_attempt(truth, instant, rollback):
            raise Violation(f"{instant} is completed, and rollback {rollback} is about it")


def _is_earlier_attempt(truth: Truth, instant: Instant, rollback: InstantTime) -> bool:
    """Whether a rollback was of an attempt at a plan that was executed again."""
    return instant.requested_time in truth.plans and rollback < instant.ended_at


def check_plans(truth: Truth) -> None:
    """A compaction plan has every log file that was completed before it was requested.

    Such a log file belongs to the slice that the compaction replaces: its rows would be lost. All
    files of a plan are there.
    """
    there = {path.rpartition("/")[2] for path in truth.data_files}
    for time, plan in truth.compactions.items():
        planned = {name for each in plan.operations for name in each.delta_file_paths or ()}
        if gone := sorted(planned - there):
            raise Violation(f"plan {time} names {gone[0]}, which is not there")
        for commit, metadata in truth.commits.items():
            for partition, stat in metadata.stats():
                ended, name = truth.completion_of(commit), stat.file_name
                if not stat.is_log or not stat.file_id or ended is None or ended >= time:
                    continue
                is_planned = FileGroupId(partition, stat.file_id) in plan.file_groups()
                if is_planned and name not in planned:
                    raise Violation(f"plan {time} lacks {name}, completed at {ended}")


def check_settled(store: MemoryStorage, truth: Truth) -> None:
    """What holds once the dead are rolled back and all is swept."""
    completed = {instant.requested_time for instant in truth.completed}
    for instant in truth.instants:
        waits = instant.requested_time in truth.plans  # for whoever executes it
        has_ended = instant.requested_time in completed or instant.state is State.ABORTED
        if not has_ended and not waits:
            raise Violation(f"{instant} is still pending")
    strays = sorted(set(truth.data_files) - truth.named_files())
    if strays:
        raise Violation(f"files that no commit names: {', '.join(strays)}")
    for directory in (paths.HEARTBEATS, paths.MARKERS, *_OWN):
        left = [entry.path for entry in store.list(directory, recursive=True)]
        if left:
            raise Violation(f"left behind: {', '.join(left)}")


def check_rollbacks(truth: Truth, steps: Sequence[Step]) -> None:
    """What an instant had written when its rollback looked at it is gone when that is done.

    The look is the reading of its workload profile, ahead of the listing of its partitions.
    """
    for target, rollback in truth.rolled_back.items():
        made: dict[str, int] = {}
        looks: dict[str, int] = {}
        for at, step in enumerate(steps):
            if not step.outcome.startswith("ok"):
                continue
            process = step.as_operation().process
            if data_file_time(step.path) == target:
                made.pop(step.path, None)
                if step.as_operation().mutates and step.verb != "delete":
                    made[step.path] = at
            elif _is_profile(step.path, target) and step.verb == "read":
                looks[process] = at
            elif step.path.startswith(f"{TIMELINE.active}/{rollback}_"):
                left = [path for path, since in made.items() if since < looks.get(process, 0)]
                if left and step.verb == "create":
                    raise Violation(f"{left[0]} outlived the rollback of {target}")


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
    begun: set[InstantTime] = field(default_factory=set)
    """Every instant that was ever on the timeline."""
    lease: tuple[Lease, int] | None = None
    """The lease that stands, and since when."""

    @property
    def store(self) -> MemoryStorage:
        return self.world.storage

    def __call__(self, operation: Operation) -> None:
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

    def _data_file(self, operation: Operation) -> None:
        if operation.verb != "delete":
            return
        truth = look(self.store)
        if operation.path in truth.named_files() - truth.cleaned:
            raise Violation(f"{operation.path} was deleted, and a commit names it")

    def _heartbeat(self, operation: Operation) -> None:
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
        self, operation: Operation, before: tuple[HeartbeatBody | None, int] | None
    ) -> None:
        """Nobody deletes the heartbeat of someone else who lives, and is at work."""
        if before is None or before[0] is None or before[0].host == sender_of(operation):
            return
        time = InstantTime(operation.path.rpartition("/")[2])
        found = [instant for instant in list_timeline(self.store) if instant.requested_time == time]
        is_pending = bool(found) and not any(instant.is_completed for instant in found)
        if (is_pending or time not in self.begun) and not is_foreign(operation):
            self._refuse_alive(operation.path, before, self.world.store_ms)

    def _lock(self) -> None:
        """Nobody takes the lock from a holder that may still publish."""
        before, self.lease = self.lease, None
        try:
            lease = lease_codec.decode(self.store.read(paths.LOCK))
        except NotFound:
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

    def _head(self, operation: Operation) -> None:
        """Nobody decides to roll back what someone else is still at work on."""
        decision = json_object.decode(self.store.read(operation.path), Decision)
        is_request = decision.kind is DecisionKind.REQUEST
        if not is_request or not decision.path.endswith(".rollback.requested"):
            return
        plan = codec.decode(read_content(self.store, decision), Action.ROLLBACK, State.REQUESTED)
        assert isinstance(plan, RollbackPlan)
        assert plan.instant_to_rollback is not None
        path = paths.heartbeat(InstantTime(plan.instant_to_rollback.commit_time))
        known = self.beats.get(path)
        if known is None or known[0] is None:
            return
        if known[0].host != sender_of(operation):  # a write may roll itself back
            self._refuse_alive(path, known, self.store.stat(operation.path).modified_ms)

    def _timeline(self, operation: Operation) -> None:
        instant = parse_timeline_name(operation.path.rpartition("/")[2], layout=2)
        if instant is None:
            return
        if operation.verb == "delete":
            if instant.is_completed and not self.is_mixed and not self._may_leave(instant):
                raise Violation(f"{instant} was taken back, though all know the head")
            return
        self.begun.add(instant.requested_time)
        is_requested = instant.action is Action.ROLLBACK and instant.state is State.REQUESTED
        if self.is_mixed or not (instant.is_completed or is_requested):
            return
        truth = look(self.store)
        check_always(truth)
        check_undisputed(truth)
        if not instant.is_completed:
            return
        later = [i for i in truth.completed if i.ended_at > instant.ended_at]
        if later:
            raise Violation(f"{instant} appears after {later[0]}, which was completed later")

    def _may_leave(self, instant: Instant) -> bool:
        """Whether a completed file may go: into the history, by a restore, or with a savepoint."""
        truth, time = look(self.store), instant.requested_time
        is_known = time in truth.archived or time in truth.taken_back
        return is_known or instant.action is Action.SAVEPOINT


def sender_of(operation: Operation) -> str:
    """The process that asked for an operation, even for one that lands late."""
    return process_of(operation.actor.partition("@")[0])


def is_foreign(operation: Operation) -> bool:
    """Whether another engine asked for it."""
    return sender_of(operation).startswith(FOREIGN)


def _beat(data: bytes) -> HeartbeatBody | None:
    try:
        return json_object.decode(data, HeartbeatBody)
    except FormatError:
        return None
