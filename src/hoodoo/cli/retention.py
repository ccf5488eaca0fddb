"""Commands about how far back a table goes: clean, archive, savepoint, restore, undo."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.engine.local import LocalEngine

_Instant = Annotated[
    str, typer.Argument(metavar="INSTANT", help="A completed commit.", show_default=False)
]
_Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Wait until young commits can be taken back, or fail."),
]


def clean(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Delete old versions of files that no promised view needs."""
    from hoodoo.services.clean import clean as run

    done = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(done)
        return
    for each in done:
        output.print_line(
            f"clean {each.instant}: {len(each.files)} files deleted"
            + (f"; reads go back to {each.earliest}" if each.earliest else "")
            + ("; someone else had begun it" if each.is_resumed else "")
        )
    if not done:
        output.print_line("nothing to clean")


def archive(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Move old instants from the active timeline into the archived one."""
    from hoodoo.services.archive import archive as run

    done = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(done)
        return
    if done.finished:
        output.print_line(f"finished an archival that was cut off: {len(done.finished)} instants")
    if done.instants:
        first, last = done.instants[0], done.instants[-1]
        output.print_line(f"archived {len(done.instants)} instants, {first} to {last}")
    if not done.instants and not done.finished:
        output.print_line("nothing to archive")


def savepoint(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]",
            help="A completed commit.  [default: the latest]",
            show_default=False,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the savepoints.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the savepoint of INSTANT.")
    ] = False,
    user: Annotated[str, typer.Option("--user", help="Who asks for it.")] = "",
    comment: Annotated[str, typer.Option("--comment", help="What it is for.")] = "",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Keep the table as of a commit until the savepoint is deleted."""
    from hoodoo.services.savepoint import create_savepoint, delete_savepoint, list_savepoints

    if list_ and (delete or instant is not None):
        raise typer.BadParameter("--list goes alone")
    ref = open_with_options(table, option)
    if list_:
        found = list_savepoints(ref)
        if json:
            output.print_json(found)
        elif not found:
            output.print_line("there are no savepoints")
        else:
            rows = [(each.instant, each.user, each.comment, each.files) for each in found]
            output.print_table(("instant", "by", "comment", "files"), rows, numbers={"files"})
        return
    if delete:
        if instant is None:
            raise typer.BadParameter("--delete needs an INSTANT")
        delete_savepoint(ref, instant)
        if json:
            output.print_json({"deleted": instant})
        else:
            output.print_line(f"deleted the savepoint of {instant}")
        return
    made = create_savepoint(ref, instant, user=user, comment=comment)
    if json:
        output.print_json(made)
    else:
        output.print_line(f"savepoint of {made.instant}: {made.files} files are kept")


def restore(
    table: TableArgument,
    instant: _Instant,
    wait: _Wait = True,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Take the table back to a commit; later ones are gone for good."""
    from hoodoo.services.restore import restore as run

    done = run(open_with_options(table, option), LocalEngine(), instant, wait=wait)
    if json:
        output.print_json(done)
    else:
        output.print_line(
            f"restored to {done.target} by {done.restore}: {len(done.instants)} instants taken "
            f"back, {len(done.files)} data files deleted"
        )


def undo(
    table: TableArgument,
    instant: _Instant,
    wait: _Wait = True,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Take the latest completed commit back; INSTANT names it, so that no other one goes."""
    from hoodoo.services.restore import roll_back_latest

    done = roll_back_latest(open_with_options(table, option), LocalEngine(), instant, wait=wait)
    if json:
        output.print_json(done)
    else:
        output.print_line(
            f"took {instant} back by {done.restore}: {len(done.files)} data files deleted"
        )
