"""Merges of 1 % and 10 % of the rows, and a delete by predicate, on Spark: against Delta.

Each side is a process of its own with one session, and has a table of the same rows, copy on write
or merge on read (Delta: deletion vectors). Each turn is on a copy of the table that was loaded.
What both have in the end must be equal. The first turn of a kind is told apart: it warms up.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

from bench.clock import ratio_line
from bench.spark import data, session
from bench.spark.peers import Peer, SideFailed
from bench.spark.runner import Answer, Request

TURNS = 3
WHERE = "fare < 1.1"
"""About one row in a hundred, in every file."""
KINDS = ("cow", "mor")
SHARES = {"hundredth": 100, "tenth": 10}
STEPS = {
    "merge of 1 %": ("merge", "hundredth"),
    "merge of 10 %": ("merge", "tenth"),
    f"delete where {WHERE}": ("erase", ""),
}
AIM = 0.5


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
            for what, (verb, source) in STEPS.items():
                turns = _race(peers, folder, kind, verb, str(folder / source))
                _report(f"{what}, {kind}, {rows:,} rows", turns)
    finally:
        for peer in peers.values():
            peer.close()


def _report(what: str, answers: dict[str, list[Answer]]) -> None:
    """Ratios of times and of CPU seconds, and the phases of our turn that is nearest the median."""
    first, *ours = answers["hoodoo"]
    first_of_theirs, *theirs = answers["delta"]
    middle = median(turn.seconds for turn in ours)
    print(ratio_line(what, middle, median(turn.seconds for turn in theirs), AIM))
    cpu = (median(turn.cpu_seconds for turn in turns) for turns in (ours, theirs))
    print(ratio_line("    CPU seconds", *cpu))
    print(ratio_line("    first turn", first.seconds, first_of_theirs.seconds))
    nearest = min(ours, key=lambda turn: abs(turn.seconds - middle))
    phases = ", ".join(f"{name} {took:.2f}" for name, took in nearest.phases.items())
    print(f"    phases: {phases}", flush=True)


def _build(folder: Path, rows: int) -> None:
    spark = session.start(folder / "spark")
    try:
        ids = spark.range(0, rows, 1, data.FILES)
        data.trips(ids).write.parquet(str(folder / "all"))
        for name, each in SHARES.items():
            changed = ids.where(f"id % {each} = 3")
            data.trips(changed, version=1).write.parquet(str(folder / name))
    finally:
        spark.stop()


def _race(
    peers: dict[str, Peer], folder: Path, kind: str, verb: str, source: str
) -> dict[str, list[Answer]]:
    """The turns of each side, in order."""
    turns: dict[str, list[Answer]] = {name: [] for name in peers}
    sums: dict[str, object] = {}
    for turn in range(TURNS + 1):
        for name, peer in peers.items():
            loaded, place = folder / f"{name}-{kind}", folder / f"{name}-turn"
            if not loaded.exists():
                peer.do(Request(name, "load", kind, str(loaded), rows=str(folder / "all")))
            shutil.copytree(loaded, place)
            request = Request(name, verb, kind, str(place), rows=source, where=WHERE)
            turns[name].append(peer.do(request))
            if not turn:
                sums[name] = peer.do(Request(name, "check", kind, str(place))).checksum
            shutil.rmtree(place)
    assert len({str(found) for found in sums.values()}) == 1, sums
    return turns
