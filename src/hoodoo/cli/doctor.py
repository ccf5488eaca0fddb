"""The command that tells what is wrong with a table, and repairs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import HoodooError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hoodoo.inspect.doctor import Finding
    from hoodoo.table.ref import TableRef


def doctor(
    table: TableArgument,
    fix: Annotated[bool, typer.Option("--fix", help="Run the commands that repair it.")] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """What is wrong, why, and the command that repairs it."""
    from hoodoo.inspect.doctor import diagnose

    ref = open_with_options(table, option)
    found = diagnose(ref, table)
    repairs = [*_fix(ref, found)] if fix else []
    left = diagnose(ref, table) if repairs else found
    if json:
        output.print_json(
            {"findings": [_plain(each) for each in left], "repairs": repairs if fix else None}
        )
        return
    for line in repairs:
        output.print_line(output.cell(line))
    for finding in left:
        output.print_line(output.cell(finding.what))
        output.print_line(f"  why: {output.cell(finding.why)}")
        output.print_line(f"  repair: {output.cell(finding.command or 'by hand')}")
    if not left:
        output.print_line(f"{table} is well")


def _fix(ref: TableRef, found: Sequence[Finding]) -> Iterator[str]:
    """Each repair once, in order; what fails is told, and the next ones get their chance."""
    from hoodoo.services.repairs import Repair, carry_out

    seen = set()
    for finding in found:
        repair = finding.repair
        is_about_one = repair in (Repair.CANCEL, Repair.DROP_CANCEL, Repair.RUN_PLAN)
        key = (repair, finding.instant if is_about_one else None)
        if repair is Repair.BY_HAND or key in seen:
            continue
        seen.add(key)
        try:
            yield f"repaired: {carry_out(ref.reopen(), LocalEngine(), repair, finding.instant)}"
        except HoodooError as error:
            yield f"failed to {repair.value}: {error}"


def _plain(finding: Finding) -> dict[str, str | None]:
    return {
        "what": finding.what,
        "why": finding.why,
        "repair": finding.repair.value,
        "command": finding.command,
        "instant": finding.instant,
    }
