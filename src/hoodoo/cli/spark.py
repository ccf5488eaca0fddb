"""The engine of commands that rewrite files: this process, or Spark once there is much to do.

A Spark session starts when a command needs it, with a bar that shows its progress.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from hoodoo.cli.output import text
from hoodoo.errors import UnsupportedFeature
from hoodoo.runtime.engine import Engine, HasSize, Item, LocalEngine, Result, StopSignal

# -- the session -----------------------------------------------------------------------------------


@contextmanager
def start_spark(app: str, master: str, settings: Mapping[str, str]) -> Iterator[Any]:
    """A session for this block."""
    from importlib.util import find_spec

    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            raise UnsupportedFeature(f"this needs {package}: pip install 'hoodoo[spark]'")
    from hoodoo.cli.java import set_java_home
    from hoodoo.spark.session.local_session import open_session

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

    from hoodoo.spark.session.progress import watch_progress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    with bar:
        line = bar.add_task(text.cell(what), total=None)
        with watch_progress(
            spark, lambda tasks: bar.update(line, completed=tasks.done, total=tasks.total)
        ):
            yield


# -- the engine that starts Spark on demand --------------------------------------------------------


LARGE_BYTES = 4 << 30
"""Input of one service from which on Spark is started, if it is installed."""
_SPARK = "spark."

Spark = Annotated[
    bool,
    typer.Option("--spark", help="Use Spark however little there is to do.  [default: by size]"),
]
Master = Annotated[str, typer.Option("--master", help="Where Spark runs.")]


def split_spark_settings(options: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the table, and the settings of Spark among them."""
    settings = {key: value for key, value in options.items() if key.startswith(_SPARK)}
    return {k: v for k, v in options.items() if k not in settings}, settings


@contextmanager
def open_engine(
    app: str, *, spark: bool, master: str, settings: Mapping[str, str]
) -> Iterator[Engine]:
    """An engine for this block; Spark is started when it is first needed."""
    with ExitStack() as sessions:
        yield _OnDemand(sessions, app, master, settings, always=spark)


class _OnDemand:
    """Runs items in this process, or by a Spark that it starts for many bytes of them."""

    def __init__(
        self,
        sessions: ExitStack,
        app: str,
        master: str,
        settings: Mapping[str, str],
        *,
        always: bool,
    ) -> None:
        self._started = sessions
        self._app = app
        self._master = master
        self._settings = settings
        self._always = always
        self._session: Any = None

    @property
    def may_repeat_tasks(self) -> bool:
        return self._session is not None

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        engine = self._by_spark() if self._is_much(items) else LocalEngine()
        return engine.map(task, items, stop=stop, report_count=report_count)

    def _is_much(self, items: Sequence[Item]) -> bool:
        sizes = [item.size_bytes for item in items if isinstance(item, HasSize)]
        if self._always:
            return bool(sizes)
        return sum(sizes) >= LARGE_BYTES and find_spec("pyspark") is not None

    def _by_spark(self) -> Engine:
        if self._session is None:
            self._session = self._started.enter_context(
                start_spark(self._app, self._master, self._settings)
            )
        from hoodoo.spark.engine import SparkEngine

        return SparkEngine(self._session, self._app)
