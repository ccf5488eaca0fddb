"""What a step of the tour is, and what all of them share."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from hoodoo.cli.output import text as output
from hoodoo.cli.spark import show_tasks
from hoodoo.errors import HoodooError, InputError, NoSuchTable

if TYPE_CHECKING:
    from hoodoo.api.table import Table

TABLE_NAME = "hoodoo_demo_trips"
_WIDTH = 100


@dataclass
class Tour:
    """What a step works with: a Spark, a place, and what the steps before it left."""

    spark: Any
    place: Path
    table: Table
    instants: dict[str, str] = field(default_factory=dict)
    """Instants that later steps come back to, by what they were."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase of an upsert that nobody disturbed."""

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Say what runs, show how far it is, and say how long it took."""
        if not sys.stderr.isatty():
            output.print_line(f"  ... {what}")
            sys.stdout.flush()
        start_s = time.monotonic()
        with show_tasks(self.spark, f"  {what}"):
            yield
        output.print_line(f"  {what}: {time.monotonic() - start_s:.1f} s")


@dataclass(frozen=True)
class TourStep:
    """One thing that the tour shows; `run` shows it, and fails if it is not so."""

    title: str
    text: str
    run: Callable[[Tour], None]


def take(tour: Tour, steps: Sequence[TourStep]) -> None:
    """All steps, one after the other."""
    for number, step in enumerate(steps, 1):
        output.print_line(f"\n{number}. {step.title}")
        output.print_line(fill(step.text, _WIDTH, initial_indent="  ", subsequent_indent="  "))
        step.run(tour)
        sys.stdout.flush()


def say(text: str) -> None:
    """What came of something."""
    output.print_line(f"  {text}")


def say_long(text: str) -> None:
    """A text of several lines, such as an error."""
    output.print_line(fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))


def show_rows(rows: Any) -> None:
    """A DataFrame of a few rows."""
    output.print_table(rows.columns, rows.collect(), numbers={"fare", "ts"}, indent="  ")


def expect(outcome: bool, claim: str) -> None:
    """A tour must not tell what is not so."""
    if not outcome:
        raise HoodooError(f"the tour is wrong, please report it: not so: {claim}")


def clear(place: Path) -> None:
    """Remove the table of the last tour; anything else in its place is left, and is an error."""
    from hoodoo.api.create import open_table

    if not place.exists():
        return
    try:
        name = open_table(str(place)).name
    except NoSuchTable:
        name = None
    if name != TABLE_NAME:
        raise InputError(f"{place} is there already, and is not a table of this demo")
    shutil.rmtree(place)
