"""The command that keeps tables healthy, as a process beside their writers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.engine import Master, Spark, open_engine, split_spark_settings
from hoodoo.cli.options import Json, OptionList, parse_options
from hoodoo.cli.progress import show_bars
from hoodoo.errors import HoodooError

if TYPE_CHECKING:
    from hoodoo.engine.engine import Engine
    from hoodoo.services.upkeep import Upkeep
    from hoodoo.table.ref import TableRef


def upkeep(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="Paths or URIs of tables.", show_default=False),
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --watch: how often.")
    ] = 60.0,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Run every table service that is due, and plans that wait; several may run."""
    from hoodoo.table.ref import open_ref

    options, settings = split_spark_settings(parse_options(option))
    refs = {table: open_ref(table, options) for table in tables}
    engine = open_engine("hoodoo upkeep", spark=spark, master=master, settings=settings)
    has_failed = False
    try:
        with _end_by_signal(), engine as runner:
            while True:
                for table, ref in refs.items():
                    has_failed |= _visit(table, ref, runner, as_json=json)
                if not watch:
                    break
                sys.stdout.flush()
                next(iter(refs.values())).env.clock.sleep(every)
    except KeyboardInterrupt:
        if not json:
            output.print_line("stopped")
        return
    if has_failed:
        raise typer.Exit(1)


def _visit(table: str, ref: TableRef, engine: Engine, *, as_json: bool) -> bool:
    """One round on one table; whether anything failed."""
    from hoodoo.services.upkeep import Outcome, run_due

    done: list[Upkeep] = []
    has_failed = False
    try:
        with show_bars() as bars:
            for each in run_due(ref.reopen(), engine, bars):
                done.append(each)
                has_failed |= each.outcome is Outcome.FAILED
                _print(table, each, as_json=as_json)
    except HoodooError as error:
        output.print_error(HoodooError(f"{table}: {error}"))
        return True
    if not done and not as_json:
        output.print_line(f"{table}: nothing is due")
    return has_failed


def _print(table: str, done: Upkeep, *, as_json: bool) -> None:
    from hoodoo.services.upkeep import Outcome

    if as_json:
        output.print_json_line(
            {
                "table": table,
                "service": done.service,
                "outcome": done.outcome.value,
                "instant": done.instant,
                "text": done.text,
                "seconds": round(done.seconds, 3),
            }
        )
    elif done.outcome is Outcome.FAILED:
        output.print_error(HoodooError(f"{table}: {done.service} failed: {done.text}"))
    else:
        left = "left " if done.outcome is Outcome.LEFT else ""
        text = output.cell(done.text)
        output.print_line(f"{table}: {left}{text} ({done.seconds:.1f} s)")
    sys.stdout.flush()


@contextmanager
def _end_by_signal() -> Iterator[None]:
    """SIGTERM, by which containers are ended, is as Ctrl-C: what runs is given up in order."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
