"""Upserts of 1 % and 10 % that find their keys by a record index: ours against Apache Hudi's.

Beside them ours with the simple index, which searches the data files. Warm: in sessions that have
written before. Cold: as the first write of a session, in a process of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

import hoodoo
from bench.spark import data, session
from bench.spark.options import Options
from bench.spark.ours import Hoodoo
from bench.spark.peers import Cold, Peer, SideFailed
from bench.spark.race import Cell, Doer, Measured, Race
from bench.spark.runner import Runner

WARM_UP = 20
SHARES = {"hundredth": "1 %", "tenth": "10 %"}
AIMS = {("hudi", "hundredth"): 1 / 3, ("hudi", "tenth"): 1 / 3, ("simple", "hundredth"): 1.0}
"""The most that our time may be, in theirs; a 1 % upsert is to be faster than a search."""
KINDS = ("cow", "mor")


def run(folder: Path, options: Options) -> None:
    """Print all ratios."""
    with _doers(folder, options) as (doers, cold):
        spark = SparkSession.active()
        cells = _cells(doers, options)
        small = max(options.rows // WARM_UP, 10 * data.FEW)
        warm = Race(folder / "warm", doers, 1, say=lambda _: None)
        _through(warm, spark, cells, small, repeat=1)
        race = Race(folder / "race", doers, 1, say=_say, failures=warm.failures)
        race.cold = cold
        for cell, why in warm.failures.items():
            print(f"{cell} is not measured: {why}")
        print(f"{options.repeat} turns with {options.rows:,} rows; {_load()}", flush=True)
        _through(race, spark, cells, options.rows, repeat=options.repeat)
        for line in lines(race.results):
            print(line)
        print(_load())
        if options.json:
            options.json.write_text(json.dumps(_as_json(race), indent=1))


@contextmanager
def _doers(
    folder: Path, options: Options
) -> Iterator[tuple[Mapping[str, Doer], Mapping[str, Doer]]]:
    """Who writes, warm and cold."""
    partitioned = options.partitioned
    spark = session.start(folder / "own", configure=hoodoo.configure)
    own = Runner(spark, {"hoodoo": Hoodoo(partitioned=partitioned)})
    print(f"hoodoo on Spark {own.version}")
    doers: dict[str, Doer] = {"hoodoo": own}
    cold: dict[str, Doer] = {"hoodoo": Cold(folder / "cold", partitioned=partitioned)}
    peer = None
    if "hudi" in options.peers:
        try:
            peer = Peer("hudi", ["hudi"], folder / "hudi", partitioned=partitioned)
        except SideFailed as error:
            print(f"hudi is not measured: {error}")
    if peer:
        print(f"{peer.told}: NOT the Spark of our side, {own.version}")
        doers["hudi"] = peer
        cold["hudi"] = Cold(folder / "cold-hudi", partitioned=partitioned, name="hudi")
    try:
        yield doers, cold
    finally:
        if peer:
            peer.close()
        spark.stop()


def _cells(doers: Mapping[str, Doer], options: Options) -> list[Cell]:
    """Hudi has the record index alone."""
    kinds = [kind for kind in KINDS if kind in options.kinds]
    cells = [Cell("hoodoo", kind) for kind in kinds]
    return cells + [Cell(side, f"{kind}-record") for side in doers for kind in kinds]


def _through(race: Race, spark: SparkSession, cells: list[Cell], rows: int, *, repeat: int) -> None:
    source = data.build(spark, race.folder / "source", rows)
    race.load(cells, source.all, data.expected(spark, rows))
    race.repeat = repeat
    for share in SHARES:
        place, expected = getattr(source, share), data.expected(spark, rows, share)
        race.upsert(share, cells, place, expected)
        race.upsert_cold(share, cells, place, expected)


def lines(results: Mapping[tuple[Cell, str], Measured]) -> Iterator[str]:
    """The table: record index of ours against Hudi's, and against the simple index."""
    yield (
        f"{'upsert with the record index':<34} {'ours s':>8} {'theirs s':>8} {'ratio':>7} "
        f"{'of CPU':>7} aim"
    )
    for other, kind, share, state in product(("hudi", "simple"), KINDS, SHARES, ("", "-cold")):
        side, its = ("hudi", f"{kind}-record") if other == "hudi" else ("hoodoo", kind)
        ours = results.get((Cell("hoodoo", f"{kind}-record"), share + state))
        theirs = results.get((Cell(side, its), share + state))
        if ours and theirs:
            what = f"{kind.upper()} {SHARES[share]}, {state[1:] or 'warm'} : {other}"
            yield _line(what, ours, theirs, AIMS.get((other, share), 0))


def _line(what: str, ours: Measured, theirs: Measured, aim: float) -> str:
    ratio, of_cpu = ours.seconds / theirs.seconds, ours.cpu_seconds / theirs.cpu_seconds
    verdict = f"{aim:.2f}x {'met' if ratio <= aim else 'MISSED'}" if aim else ""
    times = f"{ours.seconds:8.2f} {theirs.seconds:8.2f} {ratio:6.2f}x {of_cpu:6.2f}x"
    return f"{what:<34} {times} {verdict}".rstrip()


def _as_json(race: Race) -> list[dict[str, object]]:
    return [
        {
            "cell": str(cell),
            "step": step,
            "seconds": [run.seconds for run in measured.runs],
            "cpu_seconds": [run.cpu_seconds for run in measured.runs],
            "phases": dict(measured.phases),
        }
        for (cell, step), measured in race.results.items()
    ]


def _load() -> str:
    return "load of the machine " + " ".join(f"{number:.1f}" for number in os.getloadavg())


def _say(text: str) -> None:
    print(text, flush=True)
