"""The command that loads files, by a Spark of its own."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.spark_session import show_progress, start_spark

if TYPE_CHECKING:
    from hoodoo.write.commit import CommitResult


class Operation(Enum):
    """What becomes of the rows."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk-insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert-overwrite"
    INSERT_OVERWRITE_TABLE = "insert-overwrite-table"


class Format(Enum):
    """What the files are."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


_BY_EXTENSION = {
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
_PACKED = {".gz", ".bz2", ".zst", ".snappy", ".lz4"}
_SPARK = "spark."


def write(
    table: TableArgument,
    op: Annotated[Operation, typer.Option("--op", help="What to do with the rows.")],
    from_: Annotated[
        str,
        typer.Option("--from", metavar="FILE_OR_DIR", help="Parquet, CSV with a header, or JSON."),
    ],
    format_: Annotated[
        Format | None, typer.Option("--format", help="What the files are.  [default: by extension]")
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs.")] = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Load files; starts a local Spark (-o spark.KEY=VALUE: its settings)."""
    from hoodoo.api import open_table

    options = parse_options(option)
    settings = {key: options.pop(key) for key in list(options) if key.startswith(_SPARK)}
    place = from_ if "://" in from_ else os.path.abspath(from_)
    kind = format_ or _format_of(place)
    opened_table = open_table(table, options)
    with (
        start_spark("hoodoo write", master, settings) as spark,
        show_progress(spark, f"{op.value} {opened_table.name}"),
    ):
        from hoodoo.spark.input_files import read_files

        rows = read_files(spark, place, kind.value, opened_table.schema)
        result = getattr(opened_table, op.name.lower())(rows)
    if json:
        output.print_json(result)
    else:
        output.print_line(_describe_result(op, result))


def _format_of(source: str) -> Format:
    """By the extension of a file, or of the files in a directory."""
    place = Path(source)
    names = [place, *(sorted(place.iterdir()) if place.is_dir() else ())]
    for name in names:
        extensions = [suffix.lower() for suffix in name.suffixes if suffix not in _PACKED]
        if extensions and extensions[-1] in _BY_EXTENSION and not name.name.startswith(("_", ".")):
            return _BY_EXTENSION[extensions[-1]]
    raise typer.BadParameter(
        f"cannot tell the format of {source!r} by its name", param_hint="--format"
    )


def _describe_result(op: Operation, result: CommitResult) -> str:
    stats, timings = result.stats, result.timings
    phases = ", ".join(f"{phase} {took:.1f}" for phase, took in timings.items())
    return (
        f"{op.value} {result.instant}: {stats.inserted} inserted, {stats.updated} updated, "
        f"{stats.deleted} deleted; {stats.files} files, {output.size_text(stats.bytes)}; "
        f"{sum(timings.values()):.1f} s ({phases})"
    )
