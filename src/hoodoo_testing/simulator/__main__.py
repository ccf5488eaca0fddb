"""`python -m hoodoo_testing.simulator`: run scenarios, and repeat a run that failed."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from hoodoo_testing.simulator.scenario import MakeScenario, RunOutcome, run
from hoodoo_testing.simulator.scenarios import scenarios
from hoodoo_testing.simulator.search.explore import (
    by_faults,
    by_preemptions,
    by_seed,
    search,
    shrink,
)
from hoodoo_testing.simulator.search.parallel import explore_all
from hoodoo_testing.simulator.world.schedule import Script

FLAWED_SCENARIOS = frozenset({"toy-naive-lock", "toy-leased-lock"})
"""Wrong on purpose: run only if asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Tells what was run, and in detail what failed; 1 if anything did."""
    logging.getLogger("hoodoo").addHandler(logging.NullHandler())  # the trace tells more
    all_scenarios = scenarios()
    request = _parser(sorted(all_scenarios)).parse_args(arguments)
    names = (
        [request.scenario] if request.scenario else sorted(set(all_scenarios) - FLAWED_SCENARIOS)
    )
    if request.jobs > 1:
        seeds = range(request.seed, request.seed + request.count)
        return explore_all(names, seeds, jobs=request.jobs, say=partial(print, flush=True))
    return max([_explore(name, all_scenarios[name], request) for name in names])


def _explore(name: str, make: MakeScenario, request: argparse.Namespace) -> int:
    start_s = time.perf_counter()

    def outcomes() -> Iterator[RunOutcome]:
        for outcome in _runs(make, request):
            if request.trace and outcome.violation is None:
                print(outcome.trace)
            yield outcome

    result = search(outcomes(), cap=request.cap)
    took_s = time.perf_counter() - start_s
    print(f"{name}: {result.runs} runs, {result.steps} steps, {took_s:.1f} s", end="")
    if not result.failures:
        print(": no violation" if result.is_complete else ", of more: no violation")
        return 0
    (failure,) = result.failures
    print(": VIOLATION\n")
    print(failure.report())
    if request.shrink and (smaller := shrink(make, failure)) is not failure:
        print(f"with less:\n\n{smaller.report()}")
    return 1


def _runs(make: MakeScenario, request: argparse.Namespace) -> Iterator[RunOutcome]:
    seed = request.seed
    if request.script is not None:
        yield run(make, Script.parse(request.script, seed=seed))
    elif request.faults is not None:
        yield from by_faults(make, request.faults, script=Script(seed))
    elif request.preemptions is not None:
        yield from by_preemptions(make, request.preemptions, script=Script(seed))
    else:
        yield from by_seed(make, range(seed, seed + request.count))


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hoodoo_testing.simulator",
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
