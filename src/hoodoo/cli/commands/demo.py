"""The command that shows what hoodoo does, on a Spark of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hoodoo.cli.output import text
from hoodoo.cli.spark import start_spark


def demo(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where the table is made.")
    ] = Path("demo-table"),
) -> None:
    """Take a guided tour on a local Spark: writers, conflicts, a crash, time travel."""
    from hoodoo.cli.demo.killed_writer import QUICK
    from hoodoo.cli.demo.steps import STEPS, create
    from hoodoo.cli.demo.tour import TABLE_NAME, clear, take

    start_s = time.monotonic()
    place = directory.absolute()
    clear(place)
    text.print_line(f"hoodoo demo: {len(STEPS)} steps on a local Spark with two cores")
    with start_spark("hoodoo demo", "local[2]", QUICK) as spark:
        text.print_line(f"Spark {spark.version} is up ({time.monotonic() - start_s:.1f} s)")
        take(create(spark, place, TABLE_NAME), STEPS)
    text.print_line(f"\nDone in {time.monotonic() - start_s:.0f} s. Look around in the table:\n")
    for command in ("timeline", "files", "scan --filter \"city = 'oslo'\"", "show"):
        name, _, rest = command.partition(" ")
        text.print_line(f"  hoodoo {name} {directory} {rest}".rstrip())
