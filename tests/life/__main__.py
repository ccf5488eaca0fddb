"""`python -m life`: live through thousands of commits, tell the figures, and draw them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from life.cost_over_commits import compare_ends
from life.life import KINDS, Course, Life, Sample
from life.plot import draw


def main() -> int:
    """Each kind of table lives once; a wrong read raises."""
    parser = argparse.ArgumentParser(prog="life", description=__doc__)
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--kinds", nargs="*", default=["cow", "mor"], choices=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="where to draw the figures")
    parser.add_argument("--ends", action="store_true", help="first and last commits of 200 instead")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    if given.ends:
        compare_ends()
        return 0
    lives = {}
    for kind in given.kinds:
        lives[kind] = tell(Life(kind, Course(given.commits, seed=given.seed)))
    if given.svg:
        title = f"{given.commits:,} commits with all services and random crashes"
        names = {"cow": "copy-on-write", "mor": "merge-on-read"}
        named = {names.get(kind, kind): samples for kind, samples in lives.items()}
        given.svg.write_text(draw(named, title))
    return 0


def tell(life: Life) -> Sequence[Sample]:
    """Live, and tell how it went."""
    began = perf_counter()
    for number in life.live():
        if (number + 1) % 100 == 0:
            print(f"{life.kind}: {number + 1} commits", file=sys.stderr, flush=True)
    samples = life.samples
    print(
        f"{life.kind}: {len(samples):,} commits in {perf_counter() - began:.0f} s, "
        f"{life.crashes} crashes, {life.reads:,} reads of the past right, "
        f"{len(life.failures)} services failed {life.failures[:3]}"
    )
    for what, part in (("first", samples[10:210]), ("last", samples[-200:])):
        print(
            f"  {what} {len(part)}: at most {max(s.instants for s in part)} instants, "
            f"{max(s.files for s in part)} objects, {max(s.megabytes for s in part):.1f} MB; "
            f"history {part[-1].history_megabytes:.2f} MB; CPU, median: "
            f"upsert {1000 * median(s.upsert_s for s in part):.1f} ms, "
            f"read {1000 * median(s.read_s for s in part):.1f} ms",
            flush=True,
        )
    return samples


if __name__ == "__main__":
    sys.exit(main())
