"""Commands about the table's lock: status, break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import Json, OptionList, TableArgument, open_with_options
from hoodoo.cli.output import text
from hoodoo.errors import InputError

if TYPE_CHECKING:
    from hoodoo.inspect.locks import LockReport


def status(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Who holds the table's lock, since when, and how long yet."""
    from hoodoo.inspect.locks import lock_status

    report = lock_status(open_with_options(table, option))
    if json:
        text.print_json(report)
    else:
        text.print_pairs(_facts(report))


def break_(
    table: TableArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if its holder seems to live.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Take the table's lock from a holder that is dead."""
    from hoodoo.concurrency.locks.table_lock import break_lock
    from hoodoo.inspect.locks import lock_status

    ref = open_with_options(table, option)
    report = lock_status(ref)
    if report.is_live and not force:
        raise InputError(
            f"the lock of {ref.uri} is held by {_describe_owner(report)}, and {_end(report)}; "
            "nothing done (--force takes it away all the same)"
        )
    if report.is_held and not yes:
        typer.confirm(f"Take the lock of {ref.uri} from {_describe_owner(report)}?", abort=True)
    holder = break_lock(ref) if report.is_held else None
    if json:
        text.print_json({"is_broken": holder is not None, "holder": holder})
    elif holder is None:
        text.print_line(f"nobody holds the lock of {ref.uri}; nothing done")
    else:
        text.print_line(
            f"took the lock of {ref.uri} from {_describe_owner(report)}; it is free now"
        )


COMMANDS: dict[str, Callable[..., None]] = {"status": status, "break": break_}


def _facts(report: LockReport) -> Iterator[tuple[str, object]]:
    yield "provider", report.provider
    yield "place", report.place
    yield "held", "yes" if report.is_held else "no"
    if not report.is_held:
        return
    if report.host is None:
        yield "owner", report.app or report.owner
    else:
        yield "application", report.app
        yield "host", report.host
        yield "process", report.pid
        yield "phase", report.phase
        yield "since", report.since
    yield "end", _end(report)


def _describe_owner(report: LockReport) -> str:
    if report.host is None:
        return report.app or report.owner or "someone unknown"
    return f"{report.app} on {report.host}, process {report.pid} ({report.phase})"


def _end(report: LockReport) -> str:
    left_s = report.expires_in_seconds
    if left_s is None:
        return "it does not end by itself"
    if left_s > 0:
        return f"it ends in {left_s:.0f} s unless renewed"
    return f"it ended {-left_s:.0f} s ago"
