"""A merge of 1 % of the rows, and a delete by predicate, on Spark: against Delta.

Each side is a process of its own with one session, and has a table of the same rows, copy on write
or merge on read (Delta: deletion vectors). Each turn is on a copy of the table that was loaded.
What both have in the end must be equal.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from bench.clock import ratio_line
from bench.spark import data, session
from bench.spark.peers import Peer, SideFailed
from bench.spark.runner import Request

TURNS = 3
WHERE = "fare < 1.1"
"""About one row in a hundred, in every file."""
KINDS = ("cow", "mor")


def run(folder: Path, rows: int) -> None:
    """Print the ratios."""
    _build(folder, rows)
    ours = Peer("", ["hoodoo"], folder / "ours", partitioned=False)
    try:
        theirs = Peer("delta", ["delta"], folder / "theirs", partitioned=False)
    except SideFailed as error:
        print(f"no Delta here: {error}", flush=True)
        ours.close()
        return
    peers = {"hoodoo": ours, "delta": theirs}
    try:
        for kind in KINDS:
            for verb, what in (("merge", "merge of 1 %"), ("erase", f"delete where {WHERE}")):
                took = _race(peers, folder, kind, verb)
                line = ratio_line(f"{what}, {kind}, {rows:,} rows", took["hoodoo"], took["delta"])
                print(line, flush=True)
    finally:
        for peer in peers.values():
            peer.close()


def _build(folder: Path, rows: int) -> None:
    spark = session.start(folder / "spark")
    try:
        ids = spark.range(0, rows, 1, data.FILES)
        data.trips(ids).write.parquet(str(folder / "all"))
        changed = ids.where("id % 100 = 3")
        data.trips(changed, version=1).write.parquet(str(folder / "hundredth"))
    finally:
        spark.stop()


def _race(peers: dict[str, Peer], folder: Path, kind: str, verb: str) -> dict[str, float]:
    """Median seconds of each side; the first turn warms up."""
    took: dict[str, list[float]] = {name: [] for name in peers}
    sums: dict[str, object] = {}
    for turn in range(TURNS + 1):
        for name, peer in peers.items():
            loaded, place = folder / f"{name}-{kind}", folder / f"{name}-turn"
            if not loaded.exists():
                peer.do(Request(name, "load", kind, str(loaded), rows=str(folder / "all")))
            shutil.copytree(loaded, place)
            source = str(folder / "hundredth")
            done = peer.do(Request(name, verb, kind, str(place), rows=source, where=WHERE))
            if turn:
                took[name].append(done.seconds)
            else:
                sums[name] = peer.do(Request(name, "check", kind, str(place))).checksum
            shutil.rmtree(place)
    assert len({str(found) for found in sums.values()}) == 1, sums
    return {name: median(seconds) for name, seconds in took.items()}
