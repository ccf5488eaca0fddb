"""What can be done about a table that is not well: repairs, and the commands that do the same."""

from __future__ import annotations

from enum import Enum

from hoodoo.concurrency.locks import break_lock
from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.model.instant import Action, InstantTime
from hoodoo.recovery.cancel import execute_cancel, request_cancel
from hoodoo.recovery.ending import drop_cancel
from hoodoo.recovery.recover import recover
from hoodoo.recovery.strays import delete_strays
from hoodoo.services.clean import clean
from hoodoo.services.planned import PLANNED_SERVICES
from hoodoo.services.upkeep import Outcome, describe_recovery, describe_result, run_due
from hoodoo.table.ref import TableRef

_COMMANDS = {
    Action.COMPACTION: "compact",
    Action.LOG_COMPACTION: "log-compact",
    Action.CLUSTERING: "cluster",
    Action.REPLACE_COMMIT: "cluster",
}


class Repair(Enum):
    """What mends a finding, in the order in which several are done."""

    BREAK_LOCK = "break the lock"
    RECOVER = "recover"
    CANCEL = "cancel the plan"
    DROP_CANCEL = "drop the cancel request"
    RUN_PLAN = "run the plan"
    SWEEP = "delete strays"
    UPKEEP = "run services that are due"
    BY_HAND = "by hand"
    """Only people can tell what is right."""


def describe_command(
    repair: Repair, table: str, instant: InstantTime | None = None, action: Action | None = None
) -> str:
    """The command that does a repair."""
    match repair:
        case Repair.BREAK_LOCK:
            return f"hoodoo lock break {table}"
        case Repair.RECOVER:
            return f"hoodoo recover {table}"
        case Repair.CANCEL:
            return f"hoodoo cancel {table} {instant} --execute"
        case Repair.RUN_PLAN if action in _COMMANDS:
            return f"hoodoo {_COMMANDS[action]} {table} --run {instant}"
        case Repair.RUN_PLAN:
            return f"hoodoo {action.value if action else ''} {table}"
        case Repair.UPKEEP:
            return f"hoodoo upkeep {table}"
        case Repair.DROP_CANCEL | Repair.SWEEP | Repair.BY_HAND:
            return f"hoodoo doctor {table} --fix"


def carry_out(
    ref: TableRef, engine: Engine, repair: Repair, instant: InstantTime | None = None
) -> str:
    """Do a repair; what it did, in a line. Raises what the service behind it raises."""
    match repair:
        case Repair.BREAK_LOCK:
            holder = break_lock(ref)
            return f"took the lock from {holder.owner}" if holder else "the lock is free"
        case Repair.RECOVER:
            return describe_recovery(recover(ref))
        case Repair.CANCEL:
            assert instant is not None
            request_cancel(ref, instant, reason="found by the doctor", force=True)
            done = execute_cancel(ref, instant)
            return f"cancelled {instant}" if done else f"{instant} was cancelled already"
        case Repair.DROP_CANCEL:
            assert instant is not None
            drop_cancel(ref, instant)
            return f"dropped the cancel request of {instant}"
        case Repair.RUN_PLAN:
            assert instant is not None
            return _run_plan(ref, engine, instant)
        case Repair.SWEEP:
            return f"deleted {len(delete_strays(ref))} stray files"
        case Repair.UPKEEP:
            done_now = [each for each in run_due(ref, engine) if each.outcome is Outcome.DONE]
            return "; ".join(each.text for each in done_now) or "nothing is due"
        case Repair.BY_HAND:
            raise InputError("only people can tell what is right here")


def _run_plan(ref: TableRef, engine: Engine, instant: InstantTime) -> str:
    plan = ref.load_timeline().find(instant)
    if plan is None or not plan.is_pending:
        return f"{instant} is not pending any more"
    if plan.action is Action.CLEAN:
        files = sum(len(each.files) for each in clean(ref, engine))
        return f"clean: {files} files deleted"
    for service in PLANNED_SERVICES:
        if service.action.completed_as is plan.action.completed_as:
            done = service.run(ref, instant, engine, None)
            assert done is not None
            return describe_result(done)
    raise InputError(f"hoodoo cannot run a plan of {plan.action.value}")
