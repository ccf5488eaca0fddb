"""The command that loads files: in this process, or by a Spark of its own if they are large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.input.files import Format, Input, find_input
from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.output import text
from hoodoo.cli.output.progress import show_progress
from hoodoo.cli.spark import split_spark_settings, start_spark
from hoodoo.errors import InputError, UnsupportedFeature
from hoodoo.model.progress import OnProgress, Progress

if TYPE_CHECKING:
    from hoodoo.api.table import Table
    from hoodoo.write.commit.publish import CommitResult

LOCAL_BYTES = 256 << 20
"""Input above which Spark is started."""


class Operation(Enum):
    """What becomes of the rows."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk-insert"
    DELETE = "delete"
    INSERT_OVERWRITE = "insert-overwrite"
    INSERT_OVERWRITE_TABLE = "insert-overwrite-table"


class WriteEngine(Enum):
    """Who reads the files and writes the rows."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


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
    engine: Annotated[
        WriteEngine,
        typer.Option(
            "--engine", help="This process, or Spark; auto: Spark above 256 MiB of input."
        ),
    ] = WriteEngine.AUTO,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            help="Use Spark, and where (-o spark.KEY=VALUE: its settings).  [default: local[*]]",
        ),
    ] = None,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Load files; Spark is started for large ones."""
    from hoodoo.api.create import open_table

    options, settings = split_spark_settings(parse_options(option))
    input_ = find_input(from_, format_)
    hoodoo_table = open_table(table, options)
    by_spark = _is_for_spark(hoodoo_table, input_, op, engine, wants_spark=bool(master or settings))
    with _tell_interrupts() as watch, show_progress(f"{op.value} {hoodoo_table.name}") as show:
        progress = watch(show)
        if not by_spark:
            result = _write_here(hoodoo_table, input_, op, progress)
        else:
            with start_spark("hoodoo write", master or "local[*]", settings) as spark:
                from hoodoo.spark.read.input_files import read_files

                rows = read_files(spark, input_.place, input_.format.value, hoodoo_table.schema)
                result = getattr(hoodoo_table, op.name.lower())(rows, progress=progress)
    if json:
        text.print_json(result)
    else:
        text.print_line(_describe_result(op, result))


@contextmanager
def _tell_interrupts() -> Iterator[Callable[[OnProgress], OnProgress]]:
    """Ctrl-C in this block tells what became of the rows."""
    commit_steps: list[Progress] = []

    def watch(show: OnProgress) -> OnProgress:
        def tell(step: Progress) -> None:
            if step == Progress("commit", 1, 1):
                commit_steps.append(step)
            show(step)

        return tell

    try:
        yield watch
    except KeyboardInterrupt:
        became = (
            "the rows are committed; table services were left to the next write"
            if commit_steps
            else "the write is undone, and none of its rows is visible"
        )
        raise KeyboardInterrupt(became) from None


def _is_for_spark(
    table: Table, input_: Input, op: Operation, engine: WriteEngine, *, wants_spark: bool
) -> bool:
    """Check the input against the table, and tell who loads it."""
    from hoodoo.cli.input.read_files import check_columns, is_read_here, size_of

    schema = table.schema
    check_columns(table._ref, input_, schema, deletes=op is Operation.DELETE)
    readable = is_read_here(input_, schema)
    if engine is WriteEngine.LOCAL:
        if not readable:
            raise InputError(f"{input_.place} can only be read by Spark: leave --engine local out")
        return False
    if engine is WriteEngine.SPARK or wants_spark or not readable:
        return True
    size = size_of(input_)
    if size > LOCAL_BYTES and find_spec("pyspark") is None:
        raise UnsupportedFeature(
            f"{input_.place} has {text.size_text(size)}, for which Spark is used: "
            "pip install 'hoodoo[spark]', or give --engine local if that fits into memory"
        )
    return size > LOCAL_BYTES


def _write_here(table: Table, input_: Input, op: Operation, progress: OnProgress) -> CommitResult:
    from hoodoo.cli.input.read_files import read_rows

    rows = read_rows(input_, table.schema)
    result: CommitResult = getattr(table, op.name.lower())(rows, progress=progress)
    return result


def _describe_result(op: Operation, result: CommitResult) -> str:
    stats, timings = result.stats, result.timings
    phases = ", ".join(f"{phase} {took:.1f}" for phase, took in timings.items())
    return (
        f"{op.value} {result.instant}: {stats.inserted} inserted, {stats.updated} updated, "
        f"{stats.deleted} deleted; {stats.files} files, {text.size_text(stats.bytes)}; "
        f"{sum(timings.values()):.1f} s ({phases})"
    )
