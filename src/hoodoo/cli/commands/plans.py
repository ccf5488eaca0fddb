"""Commands about pending plans: plans, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.cli.output import text as output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.inspect.plans import PlanReport

_PARTITIONS = 3


def plans(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Pending plans of table services: what they block, and who runs them."""
    from hoodoo.inspect.plans import report_plans

    reports = report_plans(open_with_options(table, option))
    if json:
        output.print_json(reports)
    elif not reports:
        output.print_line("no plan is pending")
    else:
        _print_plans(reports)


def cancel(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The pending plan.", show_default=False)
    ],
    execute: Annotated[
        bool, typer.Option("--execute", help="Also remove it, which fails while someone runs it.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it was not scheduled as cancellable.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="For those who look it up.")
    ] = "by hand",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Ask for the end of a plan: nobody can complete it from now on."""
    from hoodoo.services.plans.cancel import execute_cancel, request_cancel

    ref = open_with_options(table, option)
    is_new = request_cancel(ref, instant, reason=reason, force=force)
    rollback = execute_cancel(ref, instant) if execute else None
    if json:
        output.print_json({"is_requested": is_new, "is_executed": execute, "rolled_back": rollback})
        return
    if rollback is not None:
        output.print_line(
            f"cancelled {rollback.action} {instant} by rollback {rollback.rollback}: "
            f"{len(rollback.files)} data files deleted"
        )
    elif execute:
        output.print_line(f"{instant} was cancelled already")
    else:
        output.print_line(
            f"requested that {instant} is cancelled"
            if is_new
            else f"that {instant} is cancelled was requested already"
        )


def _print_plans(reports: Sequence[PlanReport]) -> None:
    headers = ("instant", "action", "policy", "age", "progress", "run by", "file groups", "in")
    rows = [
        (
            plan.instant,
            plan.action,
            plan.policy,
            output.age_text(plan.age_seconds),
            plan.progress,
            plan.owner or "nobody",
            plan.file_groups,
            _places(plan.partitions),
        )
        for plan in reports
    ]
    output.print_table(headers, rows, numbers={"file groups"})
    output.print_line()
    for plan in reports:
        output.print_line(f"{plan.instant} blocks {', '.join(plan.blocks) or 'nothing'}")
        for label, text in (
            ("cancel requested", plan.cancel_reason),
            ("overdue", plan.overdue if plan.cancel_reason is None else None),
            (
                "cancelled before",
                f"{plan.recent_cancels} times within a day" if plan.recent_cancels else None,
            ),
            ("problem", plan.problem),
        ):
            if text:
                output.print_line(f"  {label}: {output.cell(text)}")


def _places(partitions: Sequence[str]) -> str:
    if not any(partitions):
        return ""
    more = len(partitions) - _PARTITIONS
    names = ", ".join(partitions[:_PARTITIONS])
    return f"{names} and {more} more" if more > 0 else names
