"""Commands that look into a table: show, schema, timeline, files, scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output, timeline_text
from hoodoo.cli.options import (
    Json,
    Limit,
    OptionList,
    TableArgument,
    effective_limit,
    open_with_options,
    split_names,
)

if TYPE_CHECKING:
    from hoodoo.inspect.files import FilesReport, SizeBucket
    from hoodoo.inspect.table import ColumnReport, TableReport
    from hoodoo.inspect.timeline import InstantReport

Raw = Annotated[
    bool, typer.Option("--raw", help="Times and names as they are on storage, however wide.")
]
_INSTANTS = 100
_GROUPS = 100
_ROWS = 20


class Mode(Enum):
    """What a scan reads: logs too, or base files only."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


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
        facts = output.plain(report)
        output.print_json(facts if properties else _without(facts, "properties"))
        return
    output.print_pairs(_facts(report))
    if properties:
        output.print_line()
        output.print_pairs(report.properties.items())


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
        output.print_json(loads(report.avro or "null"))
    elif json:
        output.print_json({"columns": report.columns})
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
        output.print_json(instants)
    else:
        show_instants = _print_raw_instants if raw else timeline_text.print_instants
        show_instants(instants)
        if last is not None and len(instants) >= last:
            output.print_line(f"\nthe newest {last}, and pending ones; --limit 0 shows all")


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
        output.print_json(first_groups)
    else:
        _print_files(first_groups, raw=raw)
        if len(first_groups.groups) < len(report.groups):
            output.print_line(f"\n{most} of {len(report.groups)} groups; --limit 0 shows all")


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
    from hoodoo.cli import rows
    from hoodoo.inspect.rows import first_rows

    most = effective_limit(limit, as_json=json, default=_ROWS)
    matches = first_rows(
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
            output.print_line(line)
    else:
        output.print_table(
            first_matches.column_names,
            rows.text_rows(first_matches),
            numbers=rows.numbers(first_matches),
        )
        if len(first_matches) < len(matches):
            output.print_line(f"\nthe first {most} rows; --limit 0 shows all")


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
    yield "size", output.size_text(totals.current_bytes)
    if totals.older_slices:
        older = output.size_text(totals.older_bytes)
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
    output.print_table(
        [headers[at] for at in columns], ([row[at] for at in columns] for row in rows)
    )


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
            output.age_text(one.age_seconds),
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
    output.print_line()
    sizes = [(_range(bucket), bucket.base_files, bucket.log_files) for bucket in report.histogram]
    output.print_table(
        ("size", "base files", "log files"), sizes, numbers=("base files", "log files")
    )
    output.print_line()
    limit = output.size_text(totals.small_file_limit_bytes)
    output.print_pairs(
        [
            ("partitions", totals.partitions),
            ("file groups", totals.file_groups),
            ("size", output.size_text(totals.current_bytes)),
            ("older slices", f"{totals.older_slices}, {output.size_text(totals.older_bytes)}"),
            ("small base files", f"{totals.small_files} (below {limit})"),
        ]
    )


def _range(bucket: SizeBucket) -> str:
    start = output.size_text(bucket.from_bytes)
    if bucket.below_bytes is None:
        return f"{start} and more"
    return f"{start} to {output.size_text(bucket.below_bytes)}"


def _flat(columns: Iterable[ColumnReport], depth: int = 0) -> Iterator[tuple[ColumnReport, int]]:
    for column in columns:
        yield column, depth
        yield from _flat(column.parts, depth + 2)


def _without(facts: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in facts.items() if key != name}
