"""`make histories SEED=1 N=10 STEPS=40`: see docs/testing.md.

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

from history_run import Run
from history_steps import ZONES, Step, draw_setting, draw_steps
from peer_client import Peer
from pyspark.sql import SparkSession
from support.sessions import local_session

PEERS = Path(__file__).resolve().parents[2] / "scripts" / "peers.py"


class HistoryFailed(Exception):
    """A reader or writer did not do what the model says; the text tells how to see it again."""


def run_history(
    seed: int,
    count: int,
    peers: Mapping[str, Peer],
    spark: SparkSession,
    place: Path,
    only: Iterable[int] = (),
) -> None:
    """One history from its beginning; fails with all that is needed to repeat it."""
    run, done = Run(draw_setting(seed), peers, spark, place), [f"{draw_setting(seed)}"]
    steps = chosen(seed, count, only)
    last = steps[-1]._replace(is_checked=True)
    try:
        run.make()
        for step in [*steps[:-1], last]:
            done.append(str(step))
            run.take(step)
    except Exception as error:
        told = traceback.format_exc() if not isinstance(error, AssertionError) else str(error)
        again = f"make histories SEED={seed} N=1 STEPS={step.number + 1}"
        again += f" ONLY={','.join(map(str, only))}" if only else ""
        raise HistoryFailed("\n".join([*done, told, f"again: {again}"])) from None


def chosen(seed: int, count: int, only: Iterable[int] = ()) -> list[Step]:
    """The first steps of a history, or some of them; the very first makes the table."""
    wanted = {0, *only}
    steps = islice(draw_steps(draw_setting(seed)), count)
    return [step for step in steps if wanted == {0} or step.number in wanted]


@contextmanager
def open_world(folder: Path) -> Iterator[tuple[dict[str, Peer], SparkSession]]:
    """An Apache Hudi in each time zone, and our own Spark."""
    found = subprocess.run([sys.executable, PEERS], capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"no Apache Hudi here: {found.stderr.strip()}")
    spark = local_session(folder / "spark")
    peers: dict[str, Peer] = {}
    try:
        for zone in ZONES:
            scratch = folder / zone.replace("/", "-")
            scratch.mkdir()
            peers[zone] = Peer(json.loads(found.stdout), scratch, zone=zone)
        yield peers, spark
    finally:
        for peer in peers.values():
            peer.close()
        spark.stop()


def main() -> int:
    """Run the histories, tell about each, and keep the tables of those that failed."""
    asked = parse(sys.argv[1:])
    folder = Path(tempfile.mkdtemp(prefix="hoodoo-histories-"))
    failed = 0
    with open_world(folder) as (peers, spark):
        for seed in range(asked.seed, asked.seed + asked.count):
            began, place = time.monotonic(), folder / f"table-{seed}"
            try:
                run_history(seed, asked.steps, peers, spark, place, asked.only)
                told = "held"
                shutil.rmtree(place)
            except HistoryFailed as error:
                told, failed = f"FAILED\n{error}\ntable: {place}\n", failed + 1
            print(f"{draw_setting(seed)}: {time.monotonic() - began:.0f} s, {told}", flush=True)
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
