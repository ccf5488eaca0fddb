"""Commands that repair a table: recover and rollback undo dead writes, doctor finds faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.commands.retention import print_restored
from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.cli.output import text
from hoodoo.errors import HoodooError
from hoodoo.runtime.engine import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoodoo.inspect.doctor import Finding
    from hoodoo.recovery.recover import RecoverResult, RecoveryVerdict
    from hoodoo.table.ref import TableRef


# -- recover and rollback --------------------------------------------------------------------------


_PATHS = 20


def recover(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Roll back dead writes, finish cut-off rollbacks, sweep leftovers."""
    from hoodoo.recovery.recover import recover as run

    result = run(open_with_options(table, option))
    if json:
        verdicts = [_verdict_to_dict(verdict) for verdict in result.left_pending]
        text.print_json(
            {"rolled_back": result.rolled_back, "left": verdicts, "swept": result.swept}
        )
    else:
        _print_recovery(result)


def rollback(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The pending instant.", show_default=False)
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Even if its writer seems to be alive.")
    ] = False,
    is_completed: Annotated[
        bool, typer.Option("--completed", help="Take the latest completed commit back.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Roll back one pending instant, or the latest commit."""
    from hoodoo.recovery.recover import roll_back

    if is_completed:
        _take_back(table, instant, option, json=json)
        return
    result = roll_back(open_with_options(table, option), instant, force=force)
    if json:
        text.print_json(result)
        return
    if result.is_dropped:
        text.print_line(f"dropped rollback {result.rollback}: {text.cell(result.reason)}")
        return
    text.print_line(
        f"rolled back {result.instant} ({result.action}) by {result.rollback}: "
        f"{_count(result.files, 'data file')} deleted"
    )
    _print_paths(result.files)


def _take_back(table: str, instant: str, option: list[str] | None, *, json: bool) -> None:
    from hoodoo.services.restore.restore import roll_back_latest

    undone = roll_back_latest(open_with_options(table, option), LocalEngine(), instant)
    if json:
        text.print_json(undone)
    else:
        print_restored(undone)


def _verdict_to_dict(verdict: RecoveryVerdict) -> dict[str, str]:
    instant = verdict.instant
    return {
        "instant": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.value,
        "reason": verdict.reason,
    }


def _print_recovery(result: RecoverResult) -> None:
    for rollback in result.rolled_back:
        what = "finished the rollback of" if rollback.is_finished else "rolled back"
        summary = f"{what} {rollback.instant} ({rollback.action}) by {rollback.rollback}"
        text.print_line(f"{summary}: {_count(rollback.files, 'data file')} deleted")
        text.print_line(f"  {text.cell(rollback.reason)}")
        _print_paths(rollback.files)
    for verdict in result.left_pending:
        instant = verdict.instant
        summary = f"{instant.requested_time} ({instant.action.value}, {instant.state.value})"
        text.print_line(f"left {summary}")
        text.print_line(f"  {text.cell(verdict.reason)}")
    swept = result.swept
    if swept.data_files or swept.leftovers:
        counts = _count(swept.data_files, "data file"), _count(swept.leftovers, "leftover")
        text.print_line(f"swept {counts[0]}, {counts[1]}")
        _print_paths(swept.data_files)
    elif not result.rolled_back and not result.left_pending:
        text.print_line("nothing to mend")


def _print_paths(paths: Sequence[str]) -> None:
    for path in paths[:_PATHS]:
        text.print_line(f"  {text.cell(path)}")
    if len(paths) > _PATHS:
        text.print_line(f"  and {len(paths) - _PATHS} more; --json lists all")


def _count(items: Sequence[str], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"


# -- doctor ----------------------------------------------------------------------------------------


def doctor(
    table: TableArgument,
    fix: Annotated[bool, typer.Option("--fix", help="Run the commands that repair it.")] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """What is wrong, why, and the command that repairs it."""
    from hoodoo.inspect.doctor import diagnose

    ref = open_with_options(table, option)
    findings = diagnose(ref, table)
    repairs = [*_fix(ref, findings)] if fix else []
    remaining_findings = diagnose(ref, table) if repairs else findings
    if json:
        text.print_json(
            {
                "findings": [_finding_to_dict(each) for each in remaining_findings],
                "repairs": repairs if fix else None,
            }
        )
        return
    for line in repairs:
        text.print_line(text.cell(line))
    for finding in remaining_findings:
        text.print_line(text.cell(finding.problem))
        text.print_line(f"  why: {text.cell(finding.cause)}")
        text.print_line(f"  repair: {text.cell(finding.command or 'by hand')}")
    if not remaining_findings:
        text.print_line(f"{table} is well")


def _fix(ref: TableRef, findings: Sequence[Finding]) -> Iterator[str]:
    """Each repair once, in order; what fails is told, and the next ones get their chance."""
    from hoodoo.services.repairs import Repair, run_repair

    repaired_keys = set()
    for finding in findings:
        repair = finding.repair
        is_about_one = repair in (Repair.CANCEL, Repair.DROP_CANCEL, Repair.RUN_PLAN)
        key = (repair, finding.instant if is_about_one else None)
        if repair is Repair.BY_HAND or key in repaired_keys:
            continue
        repaired_keys.add(key)
        try:
            yield f"repaired: {run_repair(ref.reopen(), LocalEngine(), repair, finding.instant)}"
        except HoodooError as error:
            yield f"failed to {repair.value}: {error}"


def _finding_to_dict(finding: Finding) -> dict[str, str | None]:
    return {
        "what": finding.problem,
        "why": finding.cause,
        "repair": finding.repair.value,
        "command": finding.command,
        "instant": finding.instant,
    }
