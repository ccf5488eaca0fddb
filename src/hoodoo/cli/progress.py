"""Bars for those who watch a terminal: how many items of a plan are done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hoodoo.cli import output

Progress = Callable[[int, int], None]


@contextmanager
def show_bars() -> Iterator[Callable[[str], Progress | None]]:
    """For each piece of work, by its name, what is to be told of items done; None: nobody looks."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Bars(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:

        def add(what: str) -> Progress:
            line = bars.add_task(output.cell(what), total=None)
            return lambda done, total: bars.update(
                line, completed=done, total=total, visible=done < total
            )

        yield add
