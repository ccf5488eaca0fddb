"""Commands about what a table keeps: clean, archive, savepoint, restore."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.cli.output import text as output
from hoodoo.runtime.engine import LocalEngine

if TYPE_CHECKING:
    from hoodoo.services.restore.restore import RestoreResult

_PATHS = 20

NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Fail if a commit is so young that one has to wait for it."),
]


def clean(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Delete versions of files that no promised read needs any more."""
    from hoodoo.services.clean.clean import clean as run

    results = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(results)
        return
    for each in results:
        what = "finished clean" if each.is_resumed else "clean"
        floor_text = (
            f"; kept from {each.earliest_retained_commit} on"
            if each.earliest_retained_commit
            else ""
        )
        output.print_line(
            f"{what} {each.instant}: {_count(each.files, 'file')} deleted{floor_text}"
        )
        _print_paths(each.files)
    if not results:
        output.print_line("nothing to clean")


def archive(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Move old instants from the active timeline into the history."""
    from hoodoo.services.archive.archive import archive as run

    result = run(open_with_options(table, option), LocalEngine())
    if json:
        output.print_json(result)
        return
    if result.finished_earlier:
        output.print_line(f"finished an archival of {_count(result.finished_earlier, 'instant')}")
    if result.instants:
        first, last = result.instants[0], result.instants[-1]
        count = _count(result.instants, "instant")
        output.print_line(f"archived {count}, from {first} to {last}")
    elif not result.finished_earlier:
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
    from hoodoo.services.restore.restore import restore as run
    from hoodoo.services.savepoints import list_savepoints

    ref = open_with_options(table, option)
    if instant is None:
        savepoints = list_savepoints(ref)
        if not savepoints:
            raise InputError("there is no savepoint: say which commit to go back to")
        instant = savepoints[-1].instant
    result = run(ref, LocalEngine(), instant, wait=not no_wait)
    if json:
        output.print_json(result)
    else:
        print_restored(result)


def print_restored(result: RestoreResult) -> None:
    """Say what a restore took back."""
    summary = f"restored to {result.target} by {result.restore}"
    commits_text = f"{_count(result.instants, 'commit')} taken back"
    output.print_line(f"{summary}: {commits_text}, {_count(result.files, 'data file')} deleted")
    for each in result.instants[:_PATHS]:
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
    from hoodoo.services.savepoints import create_savepoint

    ref = open_with_options(table, option)
    savepoint = create_savepoint(ref, instant, user=user, comment=comment)
    if json:
        output.print_json(savepoint)
    else:
        output.print_line(
            f"savepoint at {savepoint.instant}: {savepoint.files} data files are kept"
        )


def _delete(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The commit.", show_default=False)
    ],
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Let go of what a savepoint keeps."""
    from hoodoo.services.savepoints import delete_savepoint

    delete_savepoint(open_with_options(table, option), instant)
    if json:
        output.print_json({"deleted": instant})
    else:
        output.print_line(f"deleted the savepoint at {instant}")


def _list(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Tell which savepoints there are."""
    from hoodoo.services.savepoints import list_savepoints

    savepoints = list_savepoints(open_with_options(table, option))
    if json:
        output.print_json(savepoints)
        return
    for each in savepoints:
        remarks = ", ".join(output.cell(text) for text in (each.user, each.comment) if text)
        output.print_line(f"{each.instant}  {each.files} data files  {remarks}".rstrip())
    if not savepoints:
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
