"""Loads, upserts and reads on Spark, as ratios within one run.

Our side and plain Spark share this process and its session. Peers have processes of their own, with
their jars, and take their turns between ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import hoodoo
from bench.spark import data, figures, session
from bench.spark.options import Options
from bench.spark.ours import Hoodoo
from bench.spark.peers import Cold, Peer, SideFailed
from bench.spark.race import Cell, Doer, Race
from bench.spark.runner import Runner
from bench.spark.sides import Plain

WARM_UP = 20
"""The part of the rows that every side starts with, unmeasured."""


def run(folder: Path, options: Options) -> None:
    """Print all ratios."""
    with ExitStack() as stack:
        doers = stack.enter_context(_doers(folder, options))
        spark = SparkSession.active()
        cells = _cells(doers, options)
        small = max(options.rows // WARM_UP, 10 * data.FEW)
        print(f"warming up with {small:,} rows", flush=True)
        warm = Race(folder / "warm", doers, 1, say=_quiet)
        _through(warm, spark, cells, small)
        race = Race(folder / "race", doers, options.repeat, say=_say, failures=warm.failures)
        cold = Cold(folder / "cold", partitioned=options.partitioned)
        race.cold = {"hoodoo": cold, "plain": cold}
        for cell, why in warm.failures.items():
            print(f"{cell} is not measured: {why}")
        print(f"{options.repeat} turns with {options.rows:,} rows; load of the machine", end=" ")
        print(" ".join(f"{number:.1f}" for number in os.getloadavg()), flush=True)
        _through(race, spark, cells, options.rows)
        _report(race, cells, options)


@contextmanager
def _doers(folder: Path, options: Options) -> Iterator[Mapping[str, Doer]]:
    """Who does what: a doer for each side that can be had."""
    spark = session.start(folder / "own", configure=hoodoo.configure)
    partitioned = options.partitioned
    own = Runner(
        spark, {"hoodoo": Hoodoo(partitioned=partitioned), "plain": Plain(partitioned=partitioned)}
    )
    print(f"hoodoo and plain Parquet on Spark {own.version}")
    doers: dict[str, Doer] = {"hoodoo": own, "plain": own}
    peers = []
    for name, sides in _wanted(options.peers):
        try:
            peer = Peer(name, sides, folder / name, partitioned=partitioned)
        except SideFailed as error:
            print(f"{name} is not measured: {error}")
            continue
        peers.append(peer)
        # On another Spark, plain Parquet runs there too, so that the Sparks can be compared.
        print(peer.told + f": NOT the Spark of our side, {own.version}" * _differs(peer, own))
        doers.update({side: peer for side in sides if side != "plain"})
        if _differs(peer, own):
            doers[f"plain@{peer.version}"] = peer
    try:
        yield doers
    finally:
        for peer in peers:
            peer.close()
        spark.stop()


def _wanted(peers: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each process that is needed, with its sides."""
    hudi = [name for name in peers if name.startswith("hudi")]
    if hudi:
        yield "hudi", [*hudi, "plain"]
    if "delta" in peers:
        yield "delta", ["delta"]


def _differs(peer: Peer, own: Runner) -> bool:
    return peer.version.split(".")[:2] != own.version.split(".")[:2]


def _cells(doers: Mapping[str, Doer], options: Options) -> list[Cell]:
    """The race's entries: sides without an index have no kinds for it."""
    cells = []
    for side in doers:
        if side.startswith("plain"):
            kinds: tuple[str, ...] = ("cow", "broadcast")
        elif side == "delta":
            kinds = tuple(kind for kind in options.kinds if "-" not in kind)
        else:
            kinds = options.kinds
        cells += [Cell(side, kind) for kind in kinds]
    return cells


def _through(race: Race, spark: SparkSession, cells: Sequence[Cell], rows: int) -> None:
    """All steps, each by all sides before the next."""
    source = data.build(spark, race.folder / "source", rows)
    race.load(cells, source.all, data.expected(spark, rows))
    race.read([cell for cell in cells if cell.kind == "cow"])
    race.upsert("few", cells, source.few, data.expected(spark, rows, "few"))
    expected = data.expected(spark, rows, "tenth")
    race.upsert("tenth", cells, source.tenth, expected)
    indexed = [cell for cell in cells if cell.kind != "broadcast"]
    race.upsert_cold("tenth", indexed, source.tenth, expected)
    race.merge([cell for cell in cells if cell.kind.startswith("mor")])


def _report(race: Race, cells: Sequence[Cell], options: Options) -> None:
    for cell in cells:
        if cell not in race.failures:
            count, size = race.size(cell)
            print(f"{cell!s:<24} {count:3} files, {size / 1e6:6.0f} MB after the load")
    others = [cell.side for cell in cells if cell.side not in ("hoodoo", "plain")]
    for line in figures.lines(race.results, dict.fromkeys(others)):
        print(line)
    if options.json:
        told = figures.as_json(race.results, dict.fromkeys(others))
        options.json.write_text(json.dumps({"rows": options.rows, **told}, indent=1))


def _say(text: str) -> None:
    print(text, flush=True)


def _quiet(text: str) -> None:
    """Warming up is nobody's business."""
