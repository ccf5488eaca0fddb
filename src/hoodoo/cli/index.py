"""Commands about indexes of the metadata table: index create, run, status, drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.engine import Master, Spark, open_engine, split_spark_settings
from hoodoo.cli.options import (
    Json,
    OptionList,
    TableArgument,
    open_with_options,
    parse_options,
    split_names,
)
from hoodoo.cli.progress import show_bars

if TYPE_CHECKING:
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.services.indexing import IndexResult
    from hoodoo.table.ref import TableRef

Indexes = Annotated[
    list[str],
    typer.Argument(
        metavar="INDEX...",
        help="files, column_stats, partition_stats, bloom_filters, record_index.",
        show_default=False,
    ),
]


def create(
    table: TableArgument,
    indexes: Indexes,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="A,B", help="Columns that get statistics.", show_default=False
        ),
    ] = None,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only plan it; `index run` builds it.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Drop what is there first, half built or not.")
    ] = False,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Build indexes while others go on writing; half-built ones are completed."""
    from hoodoo.services.indexing import create_index, plan_index

    names = split_names(columns)
    ref, settings = _open(table, option)
    if schedule:
        planned = plan_index(ref, indexes, columns=names, rebuild=rebuild)
        time = planned.requested_time if planned else None
        if json:
            output.print_json({"scheduled": time})
        elif time:
            output.print_line(f"planned indexing {time}: `hoodoo index run` builds it")
        else:
            output.print_line("nothing planned: all of them are there, or planned")
        return
    engine = open_engine("hoodoo index", spark=spark, master=master, settings=settings)
    with engine as runner, show_bars() as bars:
        done = create_index(ref, indexes, runner, columns=names, rebuild=rebuild, progress_of=bars)
    _print_result(done, "nothing to build: all of them are there", as_json=json)


def run(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="This plan, not the oldest.", show_default=False),
    ] = None,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Build planned indexes; a build that was cut off goes on."""
    from hoodoo.services.indexing import run_index

    ref, settings = _open(table, option)
    engine = open_engine("hoodoo index", spark=spark, master=master, settings=settings)
    with engine as runner, show_bars() as bars:
        done = run_index(ref, instant, runner, progress_of=bars)
    _print_result(done, "no build is planned", as_json=json)


def status(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """The indexes: in use, being built, or stuck."""
    from hoodoo.inspect.indexes import report_indexes

    found = report_indexes(open_with_options(table, option))
    if json:
        output.print_json(found)
    elif not found:
        output.print_line("the table has no metadata table: `hoodoo index create` makes one")
    else:
        _print_indexes(found)


def drop(
    table: TableArgument, indexes: Indexes, option: OptionList = None, json: Json = False
) -> None:
    """Drop indexes, complete or half built; with `files` goes the whole metadata table."""
    from hoodoo.services.index_drop import drop_index

    gone = drop_index(open_with_options(table, option), *indexes)
    if json:
        output.print_json({"dropped": gone})
    else:
        output.print_line(f"dropped {', '.join(gone)}")


COMMANDS: Mapping[str, Callable[..., None]] = {
    "create": create,
    "run": run,
    "status": status,
    "drop": drop,
}


def _open(table: str, option: list[str] | None) -> tuple[TableRef, dict[str, str]]:
    from hoodoo.table.ref import open_ref

    options, settings = split_spark_settings(parse_options(option))
    return open_ref(table, options), settings


def _print_result(done: IndexResult | None, nothing: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    elif done is None:
        output.print_line(nothing)
    else:
        by = " by someone else" if done.was_done else ""
        built = f"built{by}: {', '.join(done.built)}" if done.built else "nothing built"
        dropped = f"; dropped meanwhile: {', '.join(done.dropped)}" if done.dropped else ""
        output.print_line(f"indexing {done.instant}: {built}{dropped}")


def _print_indexes(found: list[IndexReport]) -> None:
    rows = [
        (
            each.name,
            each.state,
            f"{each.built}/{each.file_groups}",
            each.files,
            output.size_text(each.size_bytes),
            each.instant,
            each.owner,
        )
        for each in found
    ]
    headers = ("index", "state", "built", "files", "size", "plan", "built by")
    output.print_table(headers, rows, numbers=("built", "files", "size"))
