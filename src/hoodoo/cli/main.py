"""The `hoodoo` program: its commands, and how it ends.

A command is a function with typer annotations, in a module of its kind; `COMMANDS` registers it,
or `GROUPS` if it is one of several under a name.
It opens the table (`open_given`), asks `hoodoo.inspect` or the API, and prints through `output`.
Exit codes: 0 done; 1 a `HoodooError`, told in one line on stderr; 2 wrong usage; 130 Ctrl-C.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from hoodoo import __version__
from hoodoo.cli.commands import (
    create,
    demo,
    index,
    inspect,
    lock,
    plans,
    read,
    repair,
    retention,
    services,
    upgrade,
    write,
)
from hoodoo.cli.commands import inspect as conflicts
from hoodoo.cli.commands import repair as doctor
from hoodoo.cli.commands import services as upkeep
from hoodoo.cli.output.text import print_error, print_line
from hoodoo.errors import HoodooError

COMMANDS: tuple[Callable[..., None], ...] = (
    create.create,
    inspect.show,
    inspect.schema,
    inspect.timeline,
    inspect.files,
    read.scan,
    read.changes,
    write.write,
    plans.plans,
    conflicts.conflicts,
    plans.cancel,
    services.compact,
    services.log_compact,
    services.cluster,
    upkeep.upkeep,
    doctor.doctor,
    repair.recover,
    repair.rollback,
    retention.clean,
    retention.archive,
    retention.restore,
    upgrade.upgrade,
    demo.demo,
)
GROUPS: dict[str, tuple[str, Mapping[str, Callable[..., None]]]] = {
    "index": ("Build and drop indexes of the metadata table.", index.COMMANDS),
    "lock": ("Look at the table's lock, or break it.", lock.COMMANDS),
    "savepoint": ("Keep the table as of a commit.", retention.SAVEPOINT_COMMANDS),
}


_INTERRUPT_EXIT_CODE = 130
_HELP = """Lakehouse tables in Apache Hudi's format.

An instant is one action on the table, such as a commit, named by the time when it was requested.
A base file is a Parquet file with rows; a file slice is a base file with the log files of changes
that came after it, and what readers see is the newest slice of every file group.

COMMAND --help tells all about a command; --install-completion lets your shell complete them."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HoodooError as error:
            print_error(error)
            by_hand = isinstance(error.__cause__ or error.__context__, KeyboardInterrupt)
            raise typer.Exit(_INTERRUPT_EXIT_CODE if by_hand else 1) from None
        except KeyboardInterrupt as interrupt:
            _end_interrupted(interrupt)


def _end_interrupted(interrupt: KeyboardInterrupt) -> NoReturn:
    """One line for Ctrl-C, with what the command has to say of it."""
    print_error(HoodooError(": ".join(["interrupted", *map(str, interrupt.args)])))
    raise typer.Exit(_INTERRUPT_EXIT_CODE) from None


app = typer.Typer(
    name="hoodoo",
    cls=_Commands,
    help=_HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text, and rich need not be imported
)
for _command in COMMANDS:
    app.command()(_command)
for _name, (_help, _members) in GROUPS.items():
    _group = typer.Typer(help=_help, no_args_is_help=True, rich_markup_mode=None)
    for _member, _command in _members.items():
        _group.command(_member)(_command)
    app.add_typer(_group, name=_name)


def _print_version(show: bool) -> None:
    if show:
        print_line(f"hoodoo {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def run() -> None:
    """The entry point of the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON is UTF-8 in any locale, and a strange name is no reason to fail.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    app()
