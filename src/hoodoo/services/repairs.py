"""What can be done about a table that is not well: repairs, and the commands that do the same."""

from __future__ import annotations

from enum import Enum

from hoodoo.concurrency.locks.table_lock import break_lock
from hoodoo.errors import InputError
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.metadata_table import FILES
from hoodoo.recovery.recover import recover
from hoodoo.recovery.rollback import drop_cancel
from hoodoo.recovery.strays import delete_strays
from hoodoo.runtime.engine import Engine
from hoodoo.services.clean.clean import clean
from hoodoo.services.indexing.build import create_index
from hoodoo.services.plans.cancel import execute_cancel, request_cancel
from hoodoo.services.registry import PLANNED_SERVICES
from hoodoo.services.upkeep import (
    ServiceOutcome,
    describe_recovery,
    describe_result,
    run_due_services,
)
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
    REBUILD = "rebuild the metadata table"
    UPKEEP = "run services that are due"
    BY_HAND = "by hand"
    """Only people can tell what is right."""


def describe_command(
    repair: Repair,
    table: str,
    instant_time: InstantTime | None = None,
    action: Action | None = None,
) -> str:
    """The command that does a repair."""
    match repair:
        case Repair.BREAK_LOCK:
            return f"hoodoo lock break {table}"
        case Repair.RECOVER:
            return f"hoodoo recover {table}"
        case Repair.CANCEL:
            return f"hoodoo cancel {table} {instant_time} --execute"
        case Repair.RUN_PLAN if action in _COMMANDS:
            return f"hoodoo {_COMMANDS[action]} {table} --run {instant_time}"
        case Repair.RUN_PLAN:
            return f"hoodoo {action.value if action else ''} {table}"
        case Repair.REBUILD:
            return f"hoodoo index create {table} {FILES} --rebuild"
        case Repair.UPKEEP:
            return f"hoodoo upkeep {table}"
        case Repair.DROP_CANCEL | Repair.SWEEP | Repair.BY_HAND:
            return f"hoodoo doctor {table} --fix"


def run_repair(
    ref: TableRef, engine: Engine, repair: Repair, instant_time: InstantTime | None = None
) -> str:
    """Do a repair; what it did, in a line. Raises what the service behind it raises."""
    match repair:
        case Repair.BREAK_LOCK:
            holder = break_lock(ref)
            return f"took the lock from {holder.owner}" if holder else "the lock is free"
        case Repair.RECOVER:
            return describe_recovery(recover(ref))
        case Repair.CANCEL:
            assert instant_time is not None
            request_cancel(ref, instant_time, reason="found by the doctor", force=True)
            cancel_result = execute_cancel(ref, instant_time)
            return (
                f"cancelled {instant_time}"
                if cancel_result
                else f"{instant_time} was cancelled already"
            )
        case Repair.DROP_CANCEL:
            assert instant_time is not None
            drop_cancel(ref, instant_time)
            return f"dropped the cancel request of {instant_time}"
        case Repair.RUN_PLAN:
            assert instant_time is not None
            return _run_plan(ref, engine, instant_time)
        case Repair.SWEEP:
            return f"deleted {len(delete_strays(ref))} stray files"
        case Repair.REBUILD:
            index_result = create_index(ref, [FILES], engine, rebuild=True)
            return (
                f"built {', '.join(index_result.built)}"
                if index_result
                else "the metadata table is there"
            )
        case Repair.UPKEEP:
            done_now = [
                each
                for each in run_due_services(ref, engine)
                if each.outcome is ServiceOutcome.DONE
            ]
            return "; ".join(each.text for each in done_now) or "nothing is due"
        case Repair.BY_HAND:
            raise InputError("only people can tell what is right here")


def _run_plan(ref: TableRef, engine: Engine, instant_time: InstantTime) -> str:
    plan = ref.load_timeline().find(instant_time)
    if plan is None or not plan.is_pending:
        return f"{instant_time} is not pending any more"
    if plan.action is Action.CLEAN:
        files = sum(len(each.files) for each in clean(ref, engine))
        return f"clean: {files} files deleted"
    for service in PLANNED_SERVICES:
        if service.action.completed_as is plan.action.completed_as:
            result = service.run(ref, instant_time, engine, None)
            assert result is not None
            return describe_result(result)
    raise InputError(f"hoodoo cannot run a plan of {plan.action.value}")
