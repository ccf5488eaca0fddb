"""What early detection spares the younger of two writes that touch the same file groups, on Spark.

The older write, in a process of its own, has written its files and waits ahead of its commit. The
younger one runs here, again and again: with each strategy it fails while it runs. At last it runs
without detection: just ahead of its commit the older one is let through, so that it fails there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import hoodoo
from bench.holds import watched
from bench.spark import cpu, data, early_overhead, session
from bench.spark.held_winner import Winner, hold_winner
from hoodoo.config.concurrency import DetectionStrategy
from hoodoo.errors import EarlyConflict, WriteConflict

AIM = 0.15
TURNS = 3
_KEY = "hoodie.write.concurrency."
ENABLE = f"{_KEY}early.conflict.detection.enable"
STRATEGY = f"{_KEY}early.conflict.detection.strategy"
DELAY, PERIOD = (
    f"{_KEY}async.conflict.detector.{name}" for name in ("initial_delay_ms", "period_ms")
)


@dataclass(frozen=True)
class Case:
    """A kind of table, the rows of both writes, and the way that rows take."""

    name: str
    kind: str = "cow-bucket"
    changes: str = "few"
    """Of `data.Source`: what the younger write changes; it is in all files."""
    options: Mapping[str, object] = field(default_factory=dict)
    winner_rows: int | None = None
    """How many rows the older write changes; each is in one file group. None is `data.FEW`."""
    period_ms: int = 1_000


SHUFFLED = {"hoodie.write.spark.driver.max.bytes": 0}
CASES = (
    Case("copy on write, buckets, 1,000 rows"),
    Case("copy on write, buckets, 1,000 rows, one file group in common", winner_rows=1),
    Case("copy on write, buckets, 10 %, shuffled", changes="tenth", options=SHUFFLED),
    Case("copy on write, simple index, 10 %", kind="cow", changes="tenth"),
    # Such a write is over in a second or two.
    Case("merge on read, buckets, 10 %", kind="mor-bucket", changes="tenth", period_ms=100),
)
FILES = 16


@dataclass(frozen=True)
class Cost:
    """What the younger write took until it failed."""

    seconds: float
    before_s: float
    """Of these, until it asked for its instant: rows, keys and file groups were looked for."""
    task_s: float
    """Time of all tasks of Spark's."""
    cpu_s: float
    late_s: float
    """After that, until no task of it ran any more."""


def settings(period_ms: int) -> Iterator[tuple[str, dict[str, object]]]:
    """The ways of detection that are measured: as it comes, and by each strategy's own means."""
    for strategy in DetectionStrategy:
        yield f"{strategy.value}, first look at the begin", {STRATEGY: strategy.value}
    for strategy in DetectionStrategy:
        options: dict[str, object] = {STRATEGY: strategy.value, DELAY: 1}
        how = "in tasks"
        if not strategy.looks_in_tasks:
            options[PERIOD] = period_ms
            how = f"each {period_ms / 1000:g} s"
        yield f"{strategy.value}, {how}", options


def table_options(kind: str) -> dict[str, object]:
    """The index of a kind of table, and a codec that all have."""
    options: dict[str, object] = {"hoodie.parquet.compression.codec": session.CODEC}
    if kind.endswith("bucket"):
        options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": FILES}
    else:
        options["hoodie.index.type"] = "SIMPLE"
    return options


def load(rows: DataFrame, place: str, kind: str) -> None:
    """A new table of all rows, in as many files as there are buckets."""
    table = hoodoo.create_table(
        place,
        schema=rows.schema,
        name="trips",
        record_key=data.KEY,
        ordering=data.ORDERING,
        table_type=kind.partition("-")[0],
        options=table_options(kind),
    )
    table.bulk_insert(rows.repartition(FILES))


class Losers:
    """Runs the younger write."""

    def __init__(self, spark: SparkSession, place: str, source: data.Source, case: Case) -> None:
        self._spark, self._place = spark, place
        self._changes = str(getattr(source, case.changes))
        self._options = {**table_options(case.kind), **case.options}

    def run(self, options: Mapping[str, object], winner: Winner | None = None) -> Cost:
        """Let it fail; without detection by the winner, which commits just ahead of it."""
        began, waited_s, task_s = 0.0, 0.0, self._task_seconds()

        def before(purpose: str) -> None:
            nonlocal began, waited_s
            if purpose == "begin":
                began = perf_counter()
            elif purpose == "commit" and winner is not None:
                asked = perf_counter()
                winner.commit()
                waited_s = perf_counter() - asked

        table = hoodoo.open_table(self._place, {**self._options, **options})
        cpu_before = cpu.seconds_by_process()
        with watched(before=before):
            started = perf_counter()
            failure = self._fail(table)
            ended = perf_counter()
        if failure is None or isinstance(failure, EarlyConflict) == (winner is not None):
            raise AssertionError(f"with {options} the younger write ended with {failure!r}")
        self._wait_for_tasks()
        return Cost(
            seconds=ended - started - waited_s,
            before_s=began - started,
            task_s=self._task_seconds() - task_s,
            cpu_s=cpu.seconds_since(cpu_before),
            late_s=perf_counter() - ended,
        )

    def _fail(self, table: hoodoo.Table) -> WriteConflict | None:
        try:
            table.upsert(self._spark.read.parquet(self._changes))
        except WriteConflict as conflict:
            return conflict
        return None

    def run_alone(self) -> Mapping[str, float]:
        """The same write undisturbed: seconds of its phases."""
        table = hoodoo.open_table(self._place, self._options)
        return table.upsert(self._spark.read.parquet(self._changes)).timings

    def _wait_for_tasks(self) -> None:
        while self._executor().activeTasks():
            sleep(0.02)

    def _task_seconds(self) -> float:
        return float(self._executor().totalDuration()) / 1000

    def _executor(self) -> Any:
        """What Spark counts of its only executor; it hears of tasks a little later."""
        context = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        return context.statusStore().executorList(True).apply(0)


def measure(losers: Losers, case: Case, place: str, rows: str) -> dict[str, list[Cost]]:
    """Turns of all settings, each beside an older write in progress; the last lets it through."""
    costs: dict[str, list[Cost]] = {"without detection": []}
    for _ in range(TURNS):
        with hold_winner(place, rows, case.winner_rows) as winner:
            for name, options in settings(case.period_ms):
                costs.setdefault(name, []).append(losers.run(options))
            costs["without detection"].append(losers.run({ENABLE: False}, winner))
    return costs


def report(case: Case, costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print medians, and what they are of the younger write's cost without detection."""

    def middle(name: str, figure: str) -> float:
        return median(float(getattr(cost, figure)) for cost in costs[name])

    whole = {figure: middle("without detection", figure) for figure in Cost.__dataclass_fields__}
    print(f"{case.name}: the younger of two writes, medians of {TURNS}")
    print(
        f"  {'':<44} {'seconds':>16} {'until begin':>11} {'task s':>16} {'CPU s':>16} {'late s':>7}"
    )
    for name in costs:
        took = {figure: middle(name, figure) for figure in Cost.__dataclass_fields__}
        parts = [f"  {name:<44}"]
        for figure in ("seconds", "task_s", "cpu_s"):
            parts.append(f"{took[figure]:8.2f} ({took[figure] / whole[figure]:5.0%})")
            if figure == "seconds":
                parts.append(f"{took['before_s']:11.2f}")
        parts.append(f"{took['late_s']:7.2f}")
        verdict = "" if name.startswith("without") else _verdict(took, whole)
        print(" ".join(parts) + verdict)


def _verdict(took: Mapping[str, float], whole: Mapping[str, float]) -> str:
    """Whether the aim is met in all, and in what detection can spare: behind the begin."""
    share = took["seconds"] / whole["seconds"]
    after = (took["seconds"] - took["before_s"]) / (whole["seconds"] - whole["before_s"])
    return f"  {'met' if share <= AIM else 'MISSED'}; behind the begin {after:.0%}"


@contextmanager
def _spark(folder: Path) -> Iterator[SparkSession]:
    spark = session.start(folder / "spark", configure=hoodoo.configure)
    try:
        yield spark
    finally:
        spark.stop()


def run(folder: Path, rows: int, cases: Sequence[Case] = CASES) -> None:
    """Print what detection costs a write alone, and what it spares the younger of two."""
    with _spark(folder) as spark:
        early_overhead.run(spark, folder)
        source = data.build(spark, folder / "source", rows)
        for number, case in enumerate(cases):
            place = str(folder / f"table-{number}")
            load(spark.read.parquet(source.all), place, case.kind)
            losers = Losers(spark, place, source, case)
            losers.run_alone()  # has the JVM compile
            phases = losers.run_alone()
            report(case, measure(losers, case, place, source.few))
            told = ", ".join(f"{name} {took:.2f}" for name, took in phases.items())
            print(f"  undisturbed, seconds by phase: {told}")
            busy = os.getloadavg()[0]
            print(
                f"  {rows:,} rows; load of the machine {busy:.1f} on {os.cpu_count()} cores",
                flush=True,
            )
