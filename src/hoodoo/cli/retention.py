"""Commands about what a table keeps: clean, archive, savepoint, restore."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.engine.local import LocalEngine

if TYPE_CHECKING:
    from hoodoo.services.restore import Restored

_PATHS = 20

NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Fail if a commit is so young that one has to wait for it."),
]


def clean(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Delete versions of files that no promised read needs any more."""
    from hoodoo.services.clean import clean as run

    done = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(done)
        return
    for each in done:
        what = "finished clean" if each.is_resumed else "clean"
        kept = f"; kept from {each.earliest} on" if each.earliest else ""
        output.print_line(f"{what} {each.instant}: {_count(each.files, 'file')} deleted{kept}")
        _print_paths(each.files)
    if not done:
        output.print_line("nothing to clean")


def archive(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Move old instants from the active timeline into the history."""
    from hoodoo.services.archive import archive as run

    done = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(done)
        return
    if done.finished:
        output.print_line(f"finished an archival of {_count(done.finished, 'instant')}")
    if done.instants:
        first, last = done.instants[0], done.instants[-1]
        count = _count(done.instants, "instant")
        output.print_line(f"archived {count}, from {first} to {last}")
    elif not done.finished:
        output.print_line("nothing to archive")


def restore(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="INSTANT",
            help="The commit to go back to; the latest savepoint unless told.",
            show_default=False,
        ),
    ] = None,
    no_wait: NoWait = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Take the table back to a commit; later ones are gone for good."""
    from hoodoo.errors import InputError
    from hoodoo.services.restore import restore as run
    from hoodoo.services.savepoint import list_savepoints

    ref = open_with_options(table, option)
    if instant is None:
        savepoints = list_savepoints(ref)
        if not savepoints:
            raise InputError("there is no savepoint: say which commit to go back to")
        instant = savepoints[-1].instant
    done = run(ref, LocalEngine(), instant, wait=not no_wait)
    if json:
        output.print_json(done)
    else:
        print_restored(done)


def print_restored(done: Restored) -> None:
    """Say what a restore took back."""
    summary = f"restored to {done.target} by {done.restore}"
    taken = f"{_count(done.instants, 'commit')} taken back"
    output.print_line(f"{summary}: {taken}, {_count(done.files, 'data file')} deleted")
    for each in done.instants[:_PATHS]:
        output.print_line(f"  {each}")


def _create(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="INSTANT", help="The commit; the latest one unless told.", show_default=False
        ),
    ] = None,
    user: Annotated[str, typer.Option("--user", help="Who makes it.")] = "",
    comment: Annotated[str, typer.Option("--comment", help="What for.")] = "",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Keep the table as of a commit."""
    from hoodoo.services.savepoint import create_savepoint

    ref = open_with_options(table, option)
    made = create_savepoint(ref, instant, user=user, comment=comment)
    if json:
        output.print_json(made)
    else:
        output.print_line(f"savepoint at {made.instant}: {made.files} data files are kept")


def _delete(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The commit.", show_default=False)
    ],
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Let go of what a savepoint keeps."""
    from hoodoo.services.savepoint import delete_savepoint

    delete_savepoint(open_with_options(table, option), instant)
    if json:
        output.print_json({"deleted": instant})
    else:
        output.print_line(f"deleted the savepoint at {instant}")


def _list(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Tell which savepoints there are."""
    from hoodoo.services.savepoint import list_savepoints

    found = list_savepoints(open_with_options(table, option))
    if json:
        output.print_json(found)
        return
    for each in found:
        told = ", ".join(output.cell(text) for text in (each.user, each.comment) if text)
        output.print_line(f"{each.instant}  {each.files} data files  {told}".rstrip())
    if not found:
        output.print_line("no savepoints")


SAVEPOINT_COMMANDS: Mapping[str, Callable[..., None]] = {
    "create": _create,
    "delete": _delete,
    "list": _list,
}


def _print_paths(paths: Sequence[str]) -> None:
    for path in paths[:_PATHS]:
        output.print_line(f"  {output.cell(path)}")
    if len(paths) > _PATHS:
        output.print_line(f"  and {len(paths) - _PATHS} more; --json lists all")


def _count(items: Sequence[str], word: str) -> str:
    return f"{len(items)} {word}" if len(items) == 1 else f"{len(items)} {word}s"
