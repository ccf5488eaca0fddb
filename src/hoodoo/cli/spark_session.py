"""A Spark for a command that needs one, and a bar that shows how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hoodoo.cli import output
from hoodoo.errors import Unsupported


@contextmanager
def start_spark(app: str, master: str, settings: Mapping[str, str]) -> Iterator[Any]:
    """A session for this block."""
    from importlib.util import find_spec

    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            raise Unsupported(f"this needs {package}: pip install 'hoodoo[spark]'")
    from hoodoo.cli.java import set_java_home
    from hoodoo.spark.cli_session import open_session

    set_java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with open_session(app, master, settings) as spark:
        yield spark


@contextmanager
def show_tasks(spark: Any, what: str) -> Iterator[None]:
    """A bar for those who watch a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from hoodoo.spark.progress import watch_progress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with bar:
        line = bar.add_task(output.cell(what), total=None)
        with watch_progress(
            spark, lambda tasks: bar.update(line, completed=tasks.done, total=tasks.total)
        ):
            yield
