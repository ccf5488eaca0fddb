"""Commands about indexes of the metadata table: index create, run, status, drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import (
    Json,
    OptionList,
    TableArgument,
    open_with_options,
    parse_options,
    split_names,
)
from hoodoo.cli.output import text
from hoodoo.cli.output.progress import show_bars
from hoodoo.cli.spark import Master, Spark, open_engine, split_spark_settings

if TYPE_CHECKING:
    from hoodoo.inspect.indexes import IndexReport
    from hoodoo.services.indexing.build import IndexResult
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
    from hoodoo.services.indexing.build import create_index, plan_index

    names = split_names(columns)
    ref, settings = _open(table, option)
    if schedule:
        plan = plan_index(ref, indexes, columns=names, rebuild=rebuild)
        time = plan.requested_time if plan else None
        if json:
            text.print_json({"scheduled": time})
        elif time:
            text.print_line(f"planned indexing {time}: `hoodoo index run` builds it")
        else:
            text.print_line("nothing planned: all of them are there, or planned")
        return
    engine = open_engine("hoodoo index", spark=spark, master=master, settings=settings)
    with engine as runner, show_bars() as bars:
        result = create_index(
            ref, indexes, runner, columns=names, rebuild=rebuild, progress_of=bars
        )
    _print_result(result, "nothing to build: all of them are there", as_json=json)


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
    from hoodoo.services.indexing.build import run_index

    ref, settings = _open(table, option)
    engine = open_engine("hoodoo index", spark=spark, master=master, settings=settings)
    with engine as runner, show_bars() as bars:
        result = run_index(ref, instant, runner, progress_of=bars)
    _print_result(result, "no build is planned", as_json=json)


def status(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """The indexes: in use, being built, or stuck."""
    from hoodoo.inspect.indexes import report_indexes

    reports = report_indexes(open_with_options(table, option))
    if json:
        text.print_json(reports)
    elif not reports:
        text.print_line("the table has no metadata table: `hoodoo index create` makes one")
    else:
        _print_indexes(reports)


def drop(
    table: TableArgument, indexes: Indexes, option: OptionList = None, json: Json = False
) -> None:
    """Drop indexes, complete or half built; with `files` goes the whole metadata table."""
    from hoodoo.services.indexing.drop import drop_index

    index_names = drop_index(open_with_options(table, option), *indexes)
    if json:
        text.print_json({"dropped": index_names})
    else:
        text.print_line(f"dropped {', '.join(index_names)}")


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


def _print_result(result: IndexResult | None, nothing: str, *, as_json: bool) -> None:
    if as_json:
        text.print_json(result)
    elif result is None:
        text.print_line(nothing)
    else:
        by = " by someone else" if result.completed_by_other else ""
        built_text = f"built{by}: {', '.join(result.built)}" if result.built else "nothing built"
        dropped_text = f"; dropped meanwhile: {', '.join(result.dropped)}" if result.dropped else ""
        text.print_line(f"indexing {result.instant}: {built_text}{dropped_text}")


def _print_indexes(reports: list[IndexReport]) -> None:
    rows = [
        (
            each.name,
            each.state,
            f"{each.built}/{each.file_groups}",
            each.files,
            text.size_text(each.size_bytes),
            each.instant,
            each.owner,
        )
        for each in reports
    ]
    headers = ("index", "state", "built", "files", "size", "plan", "built by")
    text.print_table(headers, rows, numbers=("built", "files", "size"))
