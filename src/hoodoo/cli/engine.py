"""The engine of commands that rewrite files: this process, or Spark once there is much to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from hoodoo.cli.spark_session import start_spark
from hoodoo.engine.engine import Engine, Item, Result, Sized
from hoodoo.engine.local import LocalEngine
from hoodoo.engine.stop import Stop

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
    with ExitStack() as started:
        yield _OnDemand(started, app, master, settings, always=spark)


class _OnDemand:
    """Runs items in this process, or by a Spark that it starts for many bytes of them."""

    def __init__(
        self,
        started: ExitStack,
        app: str,
        master: str,
        settings: Mapping[str, str],
        *,
        always: bool,
    ) -> None:
        self._started = started
        self._app = app
        self._master = master
        self._settings = settings
        self._always = always
        self._session: Any = None

    @property
    def repeats(self) -> bool:
        return self._session is not None

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: Stop | None = None,
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        engine = self._by_spark() if self._is_much(items) else LocalEngine()
        return engine.map(task, items, stop=stop, done=done)

    def _is_much(self, items: Sequence[Item]) -> bool:
        sizes = [item.size_bytes for item in items if isinstance(item, Sized)]
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
