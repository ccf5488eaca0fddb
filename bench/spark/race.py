"""All sides through the same steps, turn by turn, so that noise hits each of them."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

from bench.spark.runner import Answer, Request


class Doer(Protocol):
    """Carries requests out: here, or in another process."""

    def do(self, request: Request) -> Answer:
        """Carry one out."""


@dataclass(frozen=True, order=True)
class Cell:
    """A side with one kind of table."""

    side: str
    kind: str

    def __str__(self) -> str:
        return f"{self.side}-{self.kind}"


@dataclass(frozen=True)
class Measured:
    """All runs of one step in one cell."""

    runs: tuple[Answer, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(run.seconds for run in self.runs)

    @property
    def cpu_seconds(self) -> float:
        """The median of what all processes of the side used."""
        return statistics.median(run.cpu_seconds for run in self.runs)

    @property
    def phases(self) -> Mapping[str, float]:
        """Those of the run nearest to the median."""
        return min(self.runs, key=lambda run: abs(run.seconds - self.seconds)).phases


@dataclass
class Race:
    """The places of all tables, and what was measured so far."""

    folder: Path
    doers: Mapping[str, Doer]
    repeat: int
    say: Callable[[str], None]
    results: dict[tuple[Cell, str], Measured] = field(default_factory=dict)
    failures: dict[Cell, str] = field(default_factory=dict)
    cold: Mapping[str, Doer] = field(default_factory=dict)
    _bases: dict[Cell, Path] = field(default_factory=dict)
    _copies: dict[Cell, Path] = field(default_factory=dict)
    _cold_copies: dict[Cell, Path] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def load(self, cells: Sequence[Cell], rows: str, expected: Sequence[int]) -> None:
        """Measure the first load; the tables that it leaves are what the upserts start from."""

        def run(cell: Cell) -> Answer:
            return self._do(cell, "load", self._place(self._bases, cell, "load"), rows)

        self._measure("load", cells, run)
        self._check(cells, self._bases, expected)

    def upsert(self, step: str, cells: Sequence[Cell], rows: str, expected: Sequence[int]) -> None:
        """Measure an upsert, each time into a table as the load left it."""

        def run(cell: Cell) -> Answer:
            place = self._place(self._copies, cell, step)
            _clone(self._bases[cell], place)
            return self._do(cell, "upsert", place, rows)

        self._measure(step, cells, run)
        self._check(cells, self._copies, expected)

    def upsert_cold(self, step: str, cells: Sequence[Cell], rows: str) -> None:
        """Measure an upsert that is the first write of a session, of sides that are had cold."""

        def run(cell: Cell) -> Answer:
            place = self._place(self._cold_copies, cell, step)
            _clone(self._bases[cell], place)
            return self._do(cell, "upsert", place, rows, self.cold)

        self._measure(f"{step}-cold", [cell for cell in cells if cell.side in self.cold], run)

    def read(self, cells: Sequence[Cell]) -> None:
        """Measure a read of what the load left."""
        self._measure("read", cells, self._reader(self._bases), unmeasured=1)

    def merge(self, cells: Sequence[Cell]) -> None:
        """Measure a read of what the last upsert left."""
        self._measure("merge", cells, self._reader(self._copies), unmeasured=1)

    def size(self, cell: Cell) -> tuple[int, int]:
        """Files with rows in them, and their bytes, as the load left them."""
        files = [path.stat().st_size for path in self._bases[cell].rglob("*.parquet")]
        return len(files), sum(files)

    def _place(self, places: dict[Cell, Path], cell: Cell, step: str) -> Path:
        """A place that is new, so that no side knows it; the one before it goes."""
        if cell in places:
            shutil.rmtree(places[cell])
        places[cell] = self.folder / f"{cell}-{step}-{next(self._numbers)}"
        return places[cell]

    def _do(
        self,
        cell: Cell,
        verb: str,
        place: Path,
        rows: str = "",
        doers: Mapping[str, Doer] | None = None,
    ) -> Answer:
        doer = (doers or self.doers)[cell.side]
        return doer.do(Request(_side(cell), verb, cell.kind, str(place), rows))

    def _reader(self, places: Mapping[Cell, Path]) -> Callable[[Cell], Answer]:
        return lambda cell: self._do(cell, "read", places[cell])

    def _measure(
        self,
        step: str,
        cells: Sequence[Cell],
        run: Callable[[Cell], Answer],
        *,
        unmeasured: int = 0,
    ) -> None:
        """Turn by turn, `unmeasured` ones first: who reads first has the JVM compile for all."""
        runs: dict[Cell, list[Answer]] = {cell: [] for cell in cells}
        for turn in range(-unmeasured, self.repeat):
            for cell in self._sound(cells):
                try:
                    answer = run(cell)
                except Exception as error:  # one side's failure is not the others'
                    self._fail(cell, f"{step}: {type(error).__name__}: {error}")
                else:
                    if turn >= 0:
                        runs[cell].append(answer)
        for cell in self._sound(cells):
            self.results[cell, step] = Measured(tuple(runs[cell]))
            told = ", ".join(f"{answer.seconds:.2f}" for answer in runs[cell])
            self.say(f"  {step:<8} {cell!s:<24} {told} s")

    def _check(
        self, cells: Sequence[Cell], places: Mapping[Cell, Path], expected: Sequence[int]
    ) -> None:
        """A side that has other rows than it should is out of the race."""
        for cell in self._sound(cells):
            try:
                found = self._do(cell, "check", places[cell]).checksum
            except Exception as error:  # one side's failure is not the others'
                self._fail(cell, f"check: {type(error).__name__}: {error}")
            else:
                if list(found) != list(expected):
                    self._fail(cell, f"wrong rows: {found} instead of {expected}")

    def _sound(self, cells: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in cells if cell not in self.failures]

    def _fail(self, cell: Cell, why: str) -> None:
        self.failures[cell] = why.splitlines()[0][:300]
        self.say(f"  {cell} is out: {self.failures[cell]}")


def _side(cell: Cell) -> str:
    """What the side is called in its own process: `plain@3.5` is plain there."""
    return cell.side.partition("@")[0]


def _clone(source: Path, target: Path) -> None:
    """A copy of a table; data files, which nobody changes, are linked."""

    def copy(one: str, other: str) -> None:
        if one.endswith(".parquet"):
            Path(other).hardlink_to(one)
        else:
            shutil.copy2(one, other)

    shutil.copytree(source, target, copy_function=copy)
