"""The command that brings old tables to the version that hoodoo writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.output import text as output
from hoodoo.cli.output.progress import show_bars

if TYPE_CHECKING:
    from hoodoo.services.upgrade.upgrade import UpgradeResult


def upgrade(
    table: TableArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would change.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Bring a table of version 6 or 8 to version 9."""
    from hoodoo.services.upgrade.upgrade import open_old
    from hoodoo.services.upgrade.upgrade import upgrade as run

    ref = open_old(table, parse_options(option))
    with show_bars() as add:
        result = run(ref, dry_run=dry_run, progress=add("timeline"))
    if json:
        output.print_json(result)
    else:
        _print_upgrade(result, dry_run=dry_run)


def _print_upgrade(result: UpgradeResult, *, dry_run: bool) -> None:
    if result.from_version == result.to_version:
        remark = "; finished what an earlier upgrade left" if result.is_done else ""
        output.print_line(f"the table is of version {result.to_version} already{remark}")
        _print_metadata_table(result)
        return
    words = "would upgrade" if dry_run else "upgraded"
    output.print_line(f"{words} from version {result.from_version} to {result.to_version}")
    if result.instants or result.archives:
        count = f"{result.instants} instants, {result.archives} files of the archive"
        output.print_line(f"  timeline: {count}")
    for change in result.changes:
        old, new = (output.cell(text or "-") for text in (change.old, change.new))
        output.print_line(f"  {change.key}: {old} -> {new}")
    _print_metadata_table(result)
    for instant in result.pending:
        output.print_line(f"  still pending: {instant}")


def _print_metadata_table(result: UpgradeResult) -> None:
    for words, partitions in (("built anew", result.rebuilt), ("dropped", result.dropped)):
        if partitions:
            output.print_line(f"  metadata table {words}: {', '.join(partitions)}")
