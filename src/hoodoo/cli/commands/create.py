"""The command that makes a table."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from hoodoo.cli.options import Json, OptionList, parse_options, split_names
from hoodoo.cli.output import text


class TableKind(Enum):
    """Copy-on-write or merge-on-read."""

    COW = "cow"
    MOR = "mor"


def create(
    uri: Annotated[str, typer.Argument(metavar="URI", help="Where to make it.")],
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            metavar="FILE_OR_TEXT",
            help="Avro JSON (a file, or the text itself), a Parquet file, "
            "or columns such as 'id:long!,name:string'.",
        ),
    ],
    record_key: Annotated[
        str, typer.Option("--record-key", metavar="A,B", help="Columns that identify a row.")
    ],
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="Columns to partition by.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            "--ordering", metavar="A,B", help="The larger value wins; else the later commit."
        ),
    ] = None,
    type_: Annotated[
        TableKind, typer.Option("--type", help="Copy-on-write or merge-on-read.")
    ] = TableKind.COW,
    name: Annotated[
        str | None, typer.Option("--name", help="The table's name.  [default: end of the URI]")
    ] = None,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Make an empty table."""
    from hoodoo.api.create import create_table
    from hoodoo.cli.input.schema import read_schema

    table = create_table(
        uri,
        schema=read_schema(schema),
        record_key=split_names(record_key) or (),
        partition_by=split_names(partition_by),
        ordering=split_names(ordering),
        table_type=type_.value,
        name=name,
        options=parse_options(option),
    )
    if json:
        text.print_json({"name": table.name, "uri": table.uri, "properties": table.properties})
    else:
        text.print_line(f"made table {table.name} at {table.uri}")
