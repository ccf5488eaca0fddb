"""Compaction and clustering against plain Spark that rewrites the files, and Apache Hudi's own.

Each side has a table of its own with the same rows: for a compaction, a merge-on-read table of
which one delta commit has changed a tenth. All take turns, and work on copies. The plain side only
writes what it reads of our base files, without merging anything. CPU seconds are those of a
side's process and its workers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

import hoodoo
from bench.clock import ratio_line
from bench.clustering import LIMITS, OUTPUTS, Cost, measure
from bench.spark import data, session
from bench.spark.ours import Hoodoo
from bench.spark.peers import Peer, SideFailed
from bench.spark.runner import Answer, Request
from hoodoo.read.snapshot import take_snapshot
from hoodoo.services.clustering.clustering import run_clustering, schedule_clustering
from hoodoo.services.compaction.compaction import run_compaction, schedule_compaction
from hoodoo.spark.engine import SparkEngine
from hoodoo.table.ref import TableRef, open_ref

TURNS = 3
ORDER = "fare"
PLAIN_AIM, HUDI_AIM = 0.6, 0.33
KINDS = {"compaction": "mor", "clustering": "cow"}


def run(folder: Path, rows: int) -> None:
    """Print the ratios."""
    spark = session.start(folder / "spark", configure=hoodoo.configure)
    try:
        source = data.build(spark, folder / "source", rows)
        hudi = _start_hudi(folder / "hudi")
        for service, kind in KINDS.items():
            _compare(Race(spark, hudi, folder / service, service, kind, source))
        if hudi is not None:
            hudi.close()
    finally:
        spark.stop()


def _start_hudi(scratch: Path) -> Peer | None:
    try:
        peer = Peer("hudi", ["hudi"], scratch, partitioned=False)
    except SideFailed as reason:
        print(f"without Apache Hudi: {reason}", flush=True)
        return None
    print(peer.told, flush=True)
    return peer


class Race:
    """The tables of one service, and what each side does to a copy of its own."""

    def __init__(
        self,
        spark: SparkSession,
        hudi: Peer | None,
        folder: Path,
        service: str,
        kind: str,
        source: data.Source,
    ) -> None:
        self.service = service
        self._spark = spark
        self._hudi = hudi
        self._folder = folder
        self._kind = kind
        folder.mkdir()
        self._tables = {"ours": folder / "ours", "hudi": folder / "hudi"}
        ours = Hoodoo(partitioned=False)
        ours.load(spark.read.parquet(source.all), str(self._tables["ours"]), kind)
        if kind == "mor":
            ours.upsert(spark.read.parquet(source.tenth), str(self._tables["ours"]), kind)
        if hudi is not None:
            self._ask_hudi("load", self._tables["hudi"], rows=source.all)
            if kind == "mor":
                self._ask_hudi("upsert", self._tables["hudi"], rows=source.tenth)

    def take_turn(self) -> dict[str, Cost]:
        """What each side costs."""
        sides = {"ours": self._run_ours, "plain": self._run_plain}
        if self._hudi is not None:
            sides["hudi"] = self._run_hudi
        return {name: self._on_copy(name, side) for name, side in sides.items()}

    def _on_copy(self, name: str, side: Callable[[Path], Cost]) -> Cost:
        copy = self._folder / "copy"
        shutil.copytree(self._tables.get(name, self._tables["ours"]), copy)
        os.sync()
        try:
            return side(copy)
        finally:
            shutil.rmtree(copy)

    def _run_ours(self, place: Path) -> Cost:
        ref = open_ref(str(place), _limits(place) if self.service == "clustering" else None)
        before = _sum_up(self._spark, ref)
        cost = measure(lambda: self._serve(ref))
        assert _sum_up(self._spark, ref) == before
        assert _is_served(place), f"hoodoo did no {self.service}"
        return cost

    def _serve(self, ref: TableRef) -> None:
        engine = SparkEngine(self._spark, self.service)
        if self.service == "compaction":
            planned = schedule_compaction(ref)
            assert planned is not None
            run_compaction(ref, planned.requested_time, engine)
        else:
            planned = schedule_clustering(ref, order_by=[ORDER])
            assert planned is not None
            run_clustering(ref, planned.requested_time, engine)

    def _run_plain(self, place: Path) -> Cost:
        frame = self._spark.read.parquet(f"{place}/*.parquet")
        if self.service == "clustering":
            frame = frame.repartitionByRange(OUTPUTS, ORDER).sortWithinPartitions(ORDER)
        out = self._folder / "out"
        try:
            return measure(lambda: frame.write.parquet(str(out)))
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def _run_hudi(self, place: Path) -> Cost:
        before = self._ask_hudi("check", place).checksum
        half = _half(place) if self.service == "clustering" else 0
        done = self._ask_hudi(self.service, place, order=ORDER, limit_bytes=half)
        assert self._ask_hudi("check", place).checksum == before
        assert _is_served(place), f"Apache Hudi did no {self.service}"
        return done.seconds, done.cpu_seconds

    def _ask_hudi(
        self, verb: str, place: Path, *, rows: str = "", order: str = "", limit_bytes: int = 0
    ) -> Answer:
        assert self._hudi is not None
        return self._hudi.do(
            Request("hudi", verb, self._kind, str(place), rows, order, limit_bytes)
        )


def _compare(race: Race) -> None:
    race.take_turn()  # warms all up
    turns = [race.take_turn() for _ in range(TURNS)]
    for other, aim in (("plain", PLAIN_AIM), ("hudi", HUDI_AIM)):
        if other not in turns[0]:
            continue
        for number, what in enumerate(("s", "CPU")):
            ours = median(turn["ours"][number] for turn in turns)
            theirs = median(turn[other][number] for turn in turns)
            print(ratio_line(f"{race.service} against {other} ({what})", ours, theirs, aim))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


def _sum_up(spark: SparkSession, ref: TableRef) -> object:
    return data.checksum(hoodoo.open_table(ref.uri).read(spark, columns=data.COLUMNS))


def _half(place: Path) -> int:
    slices = take_snapshot(open_ref(str(place))).slices()
    return sum(each.size_bytes for each in slices) // OUTPUTS + 1


def _limits(place: Path) -> dict[str, object]:
    return {f"hoodie.clustering.plan.strategy.{key}": _half(place) for key in LIMITS}


def _is_served(place: Path) -> bool:
    """Whether the newest completed instant rewrote files."""
    done = open_ref(str(place)).load_timeline().completed.instants[-1]
    return done.action.value in ("commit", "replacecommit")
