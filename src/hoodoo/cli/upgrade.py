"""The command that brings old tables to the version that hoodoo writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.progress import show_bars

if TYPE_CHECKING:
    from hoodoo.services.upgrade import Upgraded


def upgrade(
    table: TableArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would change.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Bring a table of version 6 or 8 to version 9."""
    from hoodoo.services.upgrade import open_old
    from hoodoo.services.upgrade import upgrade as run

    ref = open_old(table, parse_options(option))
    with show_bars() as add:
        done = run(ref, dry_run=dry_run, progress=add("timeline"))
    if json:
        output.print_json(done)
    else:
        _print_upgrade(done, dry_run=dry_run)


def _print_upgrade(done: Upgraded, *, dry_run: bool) -> None:
    if done.from_version == done.to_version:
        left = "; finished what an earlier upgrade left" if done.is_done else ""
        output.print_line(f"the table is of version {done.to_version} already{left}")
        _print_metadata_table(done)
        return
    words = "would upgrade" if dry_run else "upgraded"
    output.print_line(f"{words} from version {done.from_version} to {done.to_version}")
    if done.instants or done.archives:
        count = f"{done.instants} instants, {done.archives} files of the archive"
        output.print_line(f"  timeline: {count}")
    for change in done.changes:
        old, new = (output.cell(text or "-") for text in (change.old, change.new))
        output.print_line(f"  {change.key}: {old} -> {new}")
    _print_metadata_table(done)
    for instant in done.pending:
        output.print_line(f"  still pending: {instant}")


def _print_metadata_table(done: Upgraded) -> None:
    for words, partitions in (("built anew", done.rebuilt), ("dropped", done.dropped)):
        if partitions:
            output.print_line(f"  metadata table {words}: {', '.join(partitions)}")
