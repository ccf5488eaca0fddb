"""`python -m hoodoo.testing.sim`: run scenarios, and repeat a run that failed."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from hoodoo.testing.sim.explore import by_faults, by_seed, search, shrink
from hoodoo.testing.sim.parallel import explore_all
from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenario import MakeScenario, Outcome, run
from hoodoo.testing.sim.scenarios import scenarios
from hoodoo.testing.sim.schedule import Script

FLAWED = frozenset({"toy-naive-lock", "toy-leased-lock"})
"""Wrong on purpose: run only if asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Tells what was run, and in detail what failed; 1 if anything did."""
    logging.getLogger("hoodoo").addHandler(logging.NullHandler())  # the trace tells more
    known = scenarios()
    asked = _parser(sorted(known)).parse_args(arguments)
    names = [asked.scenario] if asked.scenario else sorted(set(known) - FLAWED)
    if asked.jobs > 1:
        seeds = range(asked.seed, asked.seed + asked.count)
        return explore_all(names, seeds, jobs=asked.jobs, say=partial(print, flush=True))
    return max([_explore(name, known[name], asked) for name in names])


def _explore(name: str, make: MakeScenario, asked: argparse.Namespace) -> int:
    started = time.perf_counter()

    def outcomes() -> Iterator[Outcome]:
        for outcome in _runs(make, asked):
            if asked.trace and outcome.violation is None:
                print(outcome.trace)
            yield outcome

    found = search(outcomes(), cap=asked.cap)
    took_s = time.perf_counter() - started
    print(f"{name}: {found.runs} runs, {found.steps} steps, {took_s:.1f} s", end="")
    if not found.failures:
        print(": no violation" if found.is_complete else ", of more: no violation")
        return 0
    (failure,) = found.failures
    print(": VIOLATION\n")
    print(failure.report())
    if asked.shrink and (smaller := shrink(make, failure)) is not failure:
        print(f"with less:\n\n{smaller.report()}")
    return 1


def _runs(make: MakeScenario, asked: argparse.Namespace) -> Iterator[Outcome]:
    seed = asked.seed
    if asked.script is not None:
        yield run(make, Script.parse(asked.script, seed=seed))
    elif asked.faults is not None:
        yield from by_faults(make, asked.faults, script=Script(seed))
    elif asked.preemptions is not None:
        yield from by_preemptions(make, asked.preemptions, script=Script(seed))
    else:
        yield from by_seed(make, range(seed, seed + asked.count))


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hoodoo.testing.sim",
        description="Run scenarios in the deterministic simulator.",
        epilog=f"scenarios: {', '.join(names)}",
    )
    add = parser.add_argument
    add("--scenario", choices=names, metavar="NAME", help="which one; all without it")
    add("--seed", type=int, default=0, metavar="N", help="the first seed (0)")
    add("--count", type=int, default=1, metavar="M", help="how many seeds, one after the other (1)")
    add("--script", metavar="TEXT", help="the decisions that a failed run printed")
    add("--preemptions", type=int, metavar="K", help="every schedule with at most K preemptions")
    add("--faults", metavar="ACTOR", help="crashes and lost messages at each operation of ACTOR")
    add("--cap", type=int, metavar="RUNS", help="stop after so many runs")
    add("--trace", action="store_true", help="print the steps of runs that succeed, too")
    add("--jobs", type=int, default=1, metavar="N", help="so many processes, by seed (1)")
    add("--shrink", action="store_true", help="look for a shorter script that fails as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
