"""`make test-random-hudi SEED=1 N=10 STEPS=40`: see docs/testing.md.

Each seed is one history. `ONLY` takes some of its steps, to find out which of them matter.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from compat.history_run import Run
from compat.history_steps import Setting, Step, draw_setting, draw_steps
from compat.peer_client import Peer
from pyspark.sql import SparkSession
from support.sessions import local_session

PEERS = Path(__file__).resolve().parents[2] / "scripts" / "peers.py"


class HistoryFailed(Exception):
    """A reader or writer did not do what the model says; the text tells how to see it again."""


def run_history(
    setting: Setting,
    count: int,
    peers: Mapping[str, Peer],
    spark: SparkSession,
    place: Path,
    only: Iterable[int] = (),
) -> None:
    """One history from its beginning; fails with all that is needed to repeat it."""
    run, done = Run(setting, peers, spark, place), [str(setting)]
    steps = chosen(setting, count, only)
    steps[-1] = steps[-1]._replace(is_checked=True)
    step = steps[0]
    try:
        run.make()
        for step in steps:
            done.append(str(step))
            run.take(step)
    except Exception as error:
        told = traceback.format_exc() if not isinstance(error, AssertionError) else str(error)
        again = f"make test-random-hudi SEED={setting.seed} N=1 STEPS={step.number + 1}"
        again += f" ONLY={','.join(map(str, only))}" if only else ""
        raise HistoryFailed("\n".join([*done, told, f"again: {again}"])) from None


def chosen(setting: Setting, count: int, only: Iterable[int] = ()) -> list[Step]:
    """The first steps of a history, or some of them; the very first makes the table."""
    wanted = {0, *only}
    steps = islice(draw_steps(setting), count)
    return [step for step in steps if wanted == {0} or step.number in wanted]


class Peers(dict[str, Peer]):
    """Apache Hudis by time zone, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        found = subprocess.run([sys.executable, PEERS], capture_output=True, text=True)
        if found.returncode:
            sys.exit(f"no Apache Hudi here: {found.stderr.strip()}")
        self.where, self.folder = json.loads(found.stdout), folder

    def __missing__(self, zone: str) -> Peer:
        scratch = Path(tempfile.mkdtemp(dir=self.folder, prefix=zone.replace("/", "-")))
        self[zone] = Peer(self.where, scratch, zone=zone)
        return self[zone]

    def close(self) -> None:
        """End them all; they are started anew when asked for again."""
        for zone in list(self):
            self.pop(zone).close()


@contextmanager
def open_world(folder: Path) -> Iterator[tuple[Peers, SparkSession]]:
    """Apache Hudi, and our own Spark."""
    spark, peers = local_session(folder / "spark"), Peers(folder)
    try:
        yield peers, spark
    finally:
        peers.close()
        spark.stop()


def main() -> int:
    """Run the histories, tell about each, and keep the tables of those that failed."""
    asked = parse(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="hoodoo-histories-"))
    failed = 0
    with open_world(folder) as (peers, spark):
        for seed in range(asked.seed, asked.seed + asked.count):
            began, place = time.monotonic(), folder / f"table-{seed}"
            setting = draw_setting(seed)
            if setting.maker != draw_setting(seed - 1).maker:
                peers.close()  # no JVM of Hudi's can write tables of two time zones, one by one
            try:
                run_history(setting, asked.steps, peers, spark, place, asked.only)
                told = "held"
                shutil.rmtree(place)
            except HistoryFailed as error:
                peers.close()  # one of them may still be at it
                told, failed = f"FAILED\n{error}\ntable: {place}\n", failed + 1
            print(f"{setting}: {time.monotonic() - began:.0f} s, {told}", flush=True)
    if not failed:
        shutil.rmtree(folder)
    print(f"{asked.count - failed} of {asked.count} histories of {asked.steps} steps held")
    return 1 if failed else 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="histories", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",")], default=[])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
