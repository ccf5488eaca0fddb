"""The command that shows what changed between two points in time."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import (
    Json,
    Limit,
    OptionList,
    TableArgument,
    effective_limit,
    open_with_options,
    parse_options,
    split_names,
)
from hoodoo.cli.output import text

if TYPE_CHECKING:
    pass


_ROWS = 20


def changes(
    table: TableArgument,
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help='After this: an instant, an ISO time, or "earliest".'
        ),
    ],
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Up to and with this.")
    ] = None,
    deletes: Annotated[
        bool, typer.Option("--deletes", help="What became of each row, deleted ones too.")
    ] = False,
    before: Annotated[
        bool, typer.Option("--before", help="With --deletes: rows before updates too.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="SQL", help="Such as \"city = 'sf'\".")
    ] = None,
    meta: Annotated[bool, typer.Option("--meta", help="Print the meta columns too.")] = False,
    limit: Limit = None,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Rows that changed after a time; as JSON, one object a line."""
    from hoodoo.api.create import open_table
    from hoodoo.cli.output import rows

    change_rows = open_table(table, parse_options(option)).changes(
        since=since,
        until=until,
        columns=split_names(columns),
        filter=filter_,
        deletes=deletes,
        before=before,
    )
    if columns is None and not meta:
        change_rows = rows.without_meta_columns(change_rows)
    most = effective_limit(limit, as_json=json, default=_ROWS)
    first = change_rows.slice(0, most)
    if json:
        for line in rows.json_lines(first):
            text.print_line(line)
        return
    text.print_table(first.column_names, rows.text_rows(first), numbers=rows.numbers(first))
    if len(first) < len(change_rows):
        text.print_line(f"\n{most} of {len(change_rows)} rows; --limit 0 shows all")


class Mode(Enum):
    """What a scan reads: logs too, or base files only."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


def scan(
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="SQL", help="Such as \"city = 'sf' and fare > 10\"."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="An instant, or an ISO time (without an offset: in the table's time zone).",
        ),
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What to read.")] = Mode.SNAPSHOT,
    meta: Annotated[bool, typer.Option("--meta", help="Print the meta columns too.")] = False,
    limit: Limit = None,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Rows; as JSON, one object a line."""
    from hoodoo.cli.output import rows
    from hoodoo.read.scan import read_first_rows

    most = effective_limit(limit, as_json=json, default=_ROWS)
    matches = read_first_rows(
        open_with_options(table, option),
        limit=None if most is None else most + 1,  # one more tells whether there are more
        columns=split_names(columns),
        filter=filter_,
        as_of=as_of,
        mode=mode.value,
    )
    if columns is None and not meta:
        matches = rows.without_meta_columns(matches)
    first_matches = matches.slice(0, most)
    if json:
        for line in rows.json_lines(first_matches):
            text.print_line(line)
    else:
        text.print_table(
            first_matches.column_names,
            rows.text_rows(first_matches),
            numbers=rows.numbers(first_matches),
        )
        if len(first_matches) < len(matches):
            text.print_line(f"\nthe first {most} rows; --limit 0 shows all")
