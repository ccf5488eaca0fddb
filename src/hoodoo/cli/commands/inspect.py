"""Commands that look into a table: show, schema, timeline, files, scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import (
    Json,
    Limit,
    OptionList,
    TableArgument,
    effective_limit,
    open_with_options,
)
from hoodoo.cli.output import text
from hoodoo.cli.output import timeline as timeline_text
from hoodoo.cli.output.conflicts import print_conflicts

if TYPE_CHECKING:
    from hoodoo.inspect.files import FilesReport, SizeBucket
    from hoodoo.inspect.table import ColumnReport, TableReport
    from hoodoo.inspect.timeline import InstantReport


Raw = Annotated[
    bool, typer.Option("--raw", help="Times and names as they are on storage, however wide.")
]
_INSTANTS = 100
_GROUPS = 100


def show(
    table: TableArgument,
    rows: Annotated[bool, typer.Option("--rows", help="Count the rows (reads files).")] = False,
    properties: Annotated[
        bool, typer.Option("--properties", help="Print hoodie.properties too.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """What a table is, and how much of it there is."""
    from hoodoo.inspect.table import report_table

    report = report_table(open_with_options(table, option), rows=rows)
    if json:
        facts = text.plain(report)
        text.print_json(facts if properties else _without(facts, "properties"))
        return
    text.print_pairs(_facts(report))
    if properties:
        text.print_line()
        text.print_pairs(report.properties.items())


def schema(
    table: TableArgument,
    avro: Annotated[bool, typer.Option("--avro", help="Print the Avro schema (JSON).")] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """The columns, without meta columns."""
    from json import loads

    from hoodoo.inspect.table import report_schema

    report = report_schema(open_with_options(table, option))
    if avro:
        text.print_json(loads(report.avro or "null"))
    elif json:
        text.print_json({"columns": report.columns})
    else:
        _print_columns(report.columns)


def timeline(
    table: TableArgument,
    all_: Annotated[bool, typer.Option("--all", help="Archived instants too.")] = False,
    limit: Limit = None,
    raw: Raw = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Instants, oldest first: action, state, owner, age."""
    from hoodoo.inspect.timeline import report_timeline

    last = effective_limit(limit, as_json=json, default=_INSTANTS)
    instants = report_timeline(open_with_options(table, option), include_archived=all_, last=last)
    if json:
        text.print_json(instants)
    else:
        show_instants = _print_raw_instants if raw else timeline_text.print_instants
        show_instants(instants)
        if last is not None and len(instants) >= last:
            text.print_line(f"\nthe newest {last}, and pending ones; --limit 0 shows all")


def files(
    table: TableArgument,
    partition: Annotated[
        str | None,
        typer.Option("--partition", metavar="PATH", help="Only this one, and those below it."),
    ] = None,
    limit: Limit = None,
    raw: Raw = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """File groups and slices, and how sizes spread."""
    from dataclasses import replace

    from hoodoo.inspect.files import report_files

    report = report_files(open_with_options(table, option), partition=partition)
    most = effective_limit(limit, as_json=json, default=_GROUPS)
    first_groups = replace(report, groups=report.groups[:most])
    if json:
        text.print_json(first_groups)
    else:
        _print_files(first_groups, raw=raw)
        if len(first_groups.groups) < len(report.groups):
            text.print_line(f"\n{most} of {len(report.groups)} groups; --limit 0 shows all")


def _facts(report: TableReport) -> Iterator[tuple[str, object]]:
    latest, totals = report.latest_commit, report.files
    yield "name", report.name
    yield "uri", report.uri
    yield "type", report.type
    yield "version", f"{report.version} (timeline layout {report.timeline_layout})"
    yield "record key", ", ".join(report.record_key) or "none"
    yield "partitioned by", ", ".join(report.partition_fields) or "nothing"
    yield "key generator", report.key_generator
    yield "merging", _merging(report)
    yield "indexes", ", ".join(report.indexes) or "none"
    if report.indexes_being_built:
        yield "being built", ", ".join(report.indexes_being_built)
    counts = [f"{count} {state}" for state, count in sorted(report.instants.items())]
    yield "instants", ", ".join(counts) or "none"
    if latest is not None:
        words = (latest.requested_time, latest.action, latest.operation)
        yield "latest commit", " ".join(word for word in words if word)
        if latest.problem is not None:
            yield "problem", latest.problem
    yield "partitions", totals.partitions
    yield "file groups", totals.file_groups
    yield "files", f"{totals.base_files} base, {totals.log_files} log"
    yield "size", text.size_text(totals.current_bytes)
    if totals.older_slices:
        older = text.size_text(totals.older_bytes)
        yield "older slices", f"{totals.older_slices}, {older}"
    if report.rows is not None:
        yield "rows", report.rows


def _merging(report: TableReport) -> str:
    by = f" by {', '.join(report.ordering)}" if report.ordering else ""
    return report.merge_mode + by


def _print_columns(columns: Iterable[ColumnReport]) -> None:
    headers = ("column", "type", "nullable", "comment")
    cells = [
        (" " * depth + column.name, column.type, "yes" if column.nullable else "no", column.comment)
        for column, depth in _flat(columns)
    ]
    _print_nonempty_columns(headers, cells, always=3)


def _print_nonempty_columns(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, always: int
) -> None:
    """A table whose columns after the first `always` are left out where nothing is in them."""
    columns = [at for at in range(len(headers)) if at < always or any(row[at] for row in rows)]
    text.print_table([headers[at] for at in columns], ([row[at] for at in columns] for row in rows))


def _print_raw_instants(instants: Sequence[InstantReport]) -> None:
    headers = (
        *("requested", "completed", "action", "state", "operation", "age", "owner"),
        *("sign of life", "cancelled", "problem"),
    )
    cells = [
        [
            one.requested_time,
            one.completion_time,
            one.action,
            f"{one.state}, archived" if one.is_archived else one.state,
            one.operation,
            text.age_text(one.age_seconds),
            one.owner,
            timeline_text.describe_silence(one) if one.silent_seconds is not None else None,
            one.cancelled,
            one.problem,
        ]
        for one in instants
    ]
    _print_nonempty_columns(headers, cells, always=5)


def _print_files(report: FilesReport, *, raw: bool) -> None:
    print_groups = timeline_text.print_raw_groups if raw else timeline_text.print_groups
    print_groups(report.groups)
    totals = report.totals
    text.print_line()
    sizes = [(_range(bucket), bucket.base_files, bucket.log_files) for bucket in report.histogram]
    text.print_table(
        ("size", "base files", "log files"), sizes, numbers=("base files", "log files")
    )
    text.print_line()
    limit = text.size_text(totals.small_file_limit_bytes)
    text.print_pairs(
        [
            ("partitions", totals.partitions),
            ("file groups", totals.file_groups),
            ("size", text.size_text(totals.current_bytes)),
            ("older slices", f"{totals.older_slices}, {text.size_text(totals.older_bytes)}"),
            ("small base files", f"{totals.small_files} (below {limit})"),
        ]
    )


def _range(bucket: SizeBucket) -> str:
    start = text.size_text(bucket.from_bytes)
    if bucket.below_bytes is None:
        return f"{start} and more"
    return f"{start} to {text.size_text(bucket.below_bytes)}"


def _flat(columns: Iterable[ColumnReport], depth: int = 0) -> Iterator[tuple[ColumnReport, int]]:
    for column in columns:
        yield column, depth
        yield from _flat(column.parts, depth + 2)


def _without(facts: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in facts.items() if key != name}


def conflicts(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Who writes which file groups now, and who will lose."""
    from hoodoo.inspect.conflicts import report_conflicts

    reports = report_conflicts(open_with_options(table, option))
    if json:
        text.print_json(reports)
    elif not reports:
        text.print_line("no write is in progress, and no plan is pending")
    else:
        print_conflicts(reports)
