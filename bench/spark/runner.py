"""One process of the race: does what it is asked to, and says how long it took.

    python -m bench.spark.runner '{"scratch": ..., "sides": [...], "jars": ..., "partitioned": ...}'

takes requests as lines of JSON on stdin and answers on stdout, in a Python that may have nothing
but pyspark. It ends when its input ends.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark import data, session
from bench.spark.cpu import seconds_by_process, seconds_since
from bench.spark.sides import Changing, Delta, Hudi, Plain, Side


@dataclass(frozen=True)
class Request:
    """One thing to do: load, upsert, read, check what is there, or what only some sides do.

    These are a merge, a delete by predicate (erase), and table services of Hudi's.
    """

    side: str
    verb: str
    kind: str
    place: str
    rows: str = ""
    order: str = ""
    """Of a clustering."""
    limit_bytes: int = 0
    """How large files get by a clustering."""
    where: str = ""
    """Which rows to erase."""


@dataclass(frozen=True)
class Answer:
    """How long it took, where the time went, and (of a check) what the rows sum up to."""

    seconds: float
    cpu_seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    checksum: Sequence[int] = ()


class Runner:
    """Sides that share this process and its Spark session."""

    def __init__(self, spark: SparkSession, sides: Mapping[str, Side]) -> None:
        self._spark = spark
        self._sides = sides
        assert spark._jvm
        self._collect_garbage: Callable[[], None] = spark._jvm.System.gc

    @property
    def version(self) -> str:
        """The version of Spark."""
        return str(self._spark.version)

    def do(self, request: Request) -> Answer:
        """Carry a request out, on disks and heaps that are as quiet as can be."""
        side = self._sides[request.side]
        os.sync()
        gc.collect()
        self._collect_garbage()
        used, started = seconds_by_process(), time.perf_counter()
        phases, checksum = self._act(side, request)
        took = time.perf_counter() - started
        return Answer(took, seconds_since(used), phases, checksum)

    def _act(self, side: Side, request: Request) -> tuple[Mapping[str, float], Sequence[int]]:
        match request.verb:
            case "load":
                return side.load(self._rows(request), request.place, request.kind), ()
            case "upsert":
                return side.upsert(self._rows(request), request.place, request.kind), ()
            case "read":
                side.drain(side.read(self._spark, request.place))
                return {}, ()
            case "check":
                return {}, data.checksum(side.read(self._spark, request.place))
            case "compaction" | "clustering" if isinstance(side, Hudi):
                side.serve(self._spark, request.place, request.verb, **_terms(request))
                return {}, ()
            case "merge" if isinstance(side, Changing):
                return side.merge(self._rows(request), request.place), ()
            case "erase" if isinstance(side, Changing):
                return side.erase(self._spark, request.place, request.where), ()
            case verb:
                raise ValueError(verb)

    def _rows(self, request: Request) -> DataFrame:
        return self._spark.read.parquet(request.rows)


def _terms(request: Request) -> dict[str, Any]:
    return {"order": request.order, "limit_bytes": request.limit_bytes}


def _hoodoo(*, partitioned: bool) -> Side:
    from bench.spark.ours import Hoodoo  # peers' Pythons do not have it

    return Hoodoo(partitioned=partitioned)


PEERS: Mapping[str, Callable[..., Side]] = {
    "hoodoo": _hoodoo,
    "plain": Plain,
    "hudi": Hudi,
    "hudi-defaults": lambda partitioned: Hudi(partitioned=partitioned, defaults=True),
    "delta": Delta,
}


def start(config: Mapping[str, Any]) -> Runner:
    """A runner with the sides that are asked for."""
    names, scratch = config["sides"], Path(config["scratch"])
    if config["jars"]:
        settings = Delta.settings if "delta" in names else Hudi.settings
        spark = session.start(scratch, settings(config["jars"]))
    else:
        import hoodoo  # as in the session of our own process

        spark = session.start(scratch, configure=hoodoo.configure)
    return Runner(spark, {name: PEERS[name](partitioned=config["partitioned"]) for name in names})


def main(config: Mapping[str, Any]) -> None:
    """Answer requests until there are no more."""
    # Whatever the JVM prints must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    runner = start(config)
    print(json.dumps({"version": runner.version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            told = asdict(runner.do(Request(**json.loads(line))))
        except Exception as error:  # the asker decides what a failure means
            told = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
