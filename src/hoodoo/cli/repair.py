"""Commands that undo what died: recover, rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.cli.retention import print_restored
from hoodoo.engine.local import LocalEngine

if TYPE_CHECKING:
    from hoodoo.recovery.recover import Recovered
    from hoodoo.recovery.verdict import Verdict

_PATHS = 20


def recover(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Roll back dead writes, finish cut-off rollbacks, sweep leftovers."""
    from hoodoo.recovery.recover import recover as run

    recovered = run(open_with_options(table, option))
    if json:
        left = [_plain(verdict) for verdict in recovered.left]
        output.print_json(
            {"rolled_back": recovered.rolled_back, "left": left, "swept": recovered.swept}
        )
    else:
        _print_recovery(recovered)


def rollback(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The pending instant.", show_default=False)
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Even if its writer seems to be alive.")
    ] = False,
    completed: Annotated[
        bool, typer.Option("--completed", help="Take the latest completed commit back.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Roll back one pending instant, or the latest commit."""
    from hoodoo.recovery.recover import roll_back

    if completed:
        _take_back(table, instant, option, json=json)
        return
    done = roll_back(open_with_options(table, option), instant, force=force)
    if json:
        output.print_json(done)
        return
    if done.is_dropped:
        output.print_line(f"dropped rollback {done.rollback}: {output.cell(done.reason)}")
        return
    output.print_line(
        f"rolled back {done.instant} ({done.action}) by {done.rollback}: "
        f"{_count(done.files, 'data file')} deleted"
    )
    _print_paths(done.files)


def _take_back(table: str, instant: str, option: list[str] | None, *, json: bool) -> None:
    from hoodoo.services.restore import roll_back_latest

    undone = roll_back_latest(open_with_options(table, option), LocalEngine(), instant)
    if json:
        output.print_json(undone)
    else:
        print_restored(undone)


def _plain(verdict: Verdict) -> dict[str, str]:
    instant = verdict.instant
    return {
        "instant": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.value,
        "reason": verdict.reason,
    }


def _print_recovery(recovered: Recovered) -> None:
    for rollback in recovered.rolled_back:
        what = "finished the rollback of" if rollback.is_finished else "rolled back"
        summary = f"{what} {rollback.instant} ({rollback.action}) by {rollback.rollback}"
        output.print_line(f"{summary}: {_count(rollback.files, 'data file')} deleted")
        output.print_line(f"  {output.cell(rollback.reason)}")
        _print_paths(rollback.files)
    for verdict in recovered.left:
        instant = verdict.instant
        summary = f"{instant.requested_time} ({instant.action.value}, {instant.state.value})"
        output.print_line(f"left {summary}")
        output.print_line(f"  {output.cell(verdict.reason)}")
    swept = recovered.swept
    if swept.data_files or swept.leftovers:
        counts = _count(swept.data_files, "data file"), _count(swept.leftovers, "leftover")
        output.print_line(f"swept {counts[0]}, {counts[1]}")
        _print_paths(swept.data_files)
    elif not recovered.rolled_back and not recovered.left:
        output.print_line("nothing to mend")


def _print_paths(paths: Sequence[str]) -> None:
    for path in paths[:_PATHS]:
        output.print_line(f"  {output.cell(path)}")
    if len(paths) > _PATHS:
        output.print_line(f"  and {len(paths) - _PATHS} more; --json lists all")


def _count(items: Sequence[str], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"
