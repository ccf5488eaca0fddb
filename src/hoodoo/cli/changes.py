"""The command that shows what changed between two points in time."""

from __future__ import annotations

from typing import Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import (
    Json,
    Limit,
    OptionList,
    TableArgument,
    effective_limit,
    parse_options,
    split_names,
)

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
    from hoodoo.api import open_table
    from hoodoo.cli import rows

    found = open_table(table, parse_options(option)).changes(
        since=since,
        until=until,
        columns=split_names(columns),
        filter=filter_,
        deletes=deletes,
        before=before,
    )
    if columns is None and not meta:
        found = rows.without_meta_columns(found)
    most = effective_limit(limit, as_json=json, default=_ROWS)
    first = found.slice(0, most)
    if json:
        for line in rows.json_lines(first):
            output.print_line(line)
        return
    output.print_table(first.column_names, rows.text_rows(first), numbers=rows.numbers(first))
    if len(first) < len(found):
        output.print_line(f"\n{most} of {len(found)} rows; --limit 0 shows all")
