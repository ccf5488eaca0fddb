"""Bars for those who watch a terminal or a notebook: how far a write or a plan is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hoodoo.cli.output import text as output
from hoodoo.model.progress import OnProgress, Progress

CountItems = Callable[[int, int], None]


@contextmanager
def show_bars() -> Iterator[Callable[[str], CountItems | None]]:
    """For each piece of work, by its name, what is to be told of items done; None: nobody looks."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    with _open_bars() as bars:

        def add(what: str) -> CountItems:
            line = bars.add_task(output.cell(what), total=None)
            return lambda count, total: bars.update(
                line, completed=count, total=total, visible=count < total
            )

        yield add


@contextmanager
def show_progress(what: str = "") -> Iterator[OnProgress]:
    """Shows how far a write is, on a terminal or in a notebook; elsewhere nothing is shown.

    >>> with hoodoo.show_progress("load") as progress:
    ...     done = table.upsert(rows, progress=progress)
    """
    notebook = _find_notebook()
    if notebook is not None:
        yield _show_in_notebook(what, notebook)
    elif not sys.stderr.isatty():
        yield lambda step: None
    else:
        with _open_bars() as bars:
            line = bars.add_task(output.cell(what), total=None)

            def show(step: Progress) -> None:
                text = output.cell(f"{what} {step.phase}".strip())
                bars.update(line, description=text, completed=step.done, total=step.total)

            yield show


def _open_bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    return Bars(*columns, TimeElapsedColumn(), console=console, transient=True)


def _find_notebook() -> Any:
    """IPython's display module, if this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    return import_module("IPython.display")


def _show_in_notebook(what: str, notebook: Any) -> OnProgress:
    """One line of the cell's output, changed as the work goes on."""
    line = notebook.display(notebook.HTML(""), display_id=True)
    lock = threading.Lock()  # files are done in many threads

    def show(step: Progress) -> None:
        from html import escape

        bar = ""
        if step.total:
            bar = f' <progress value="{step.done}" max="{step.total}"></progress> '
            bar += f"{step.done}/{step.total}"
        with lock:
            line.update(notebook.HTML(f"{escape(f'{what} {step.phase}'.strip())}{bar}"))

    return show
