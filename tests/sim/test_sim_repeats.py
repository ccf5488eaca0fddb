"""The same seed, the same script and another process repeat a run of the simulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from plays import Anything

from hoodoo.testing.sim.__main__ import FLAWED
from hoodoo.testing.sim.explore import by_seed
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import run
from hoodoo.testing.sim.scenarios import scenarios
from hoodoo.testing.sim.schedule import Script
from hoodoo.testing.sim.seeded import Seeded


def test_a_seed_repeats_a_run() -> None:
    faults = 0
    for seed in range(100):
        first, second = (run(Anything, Seeded(seed, Anything.chances)) for _ in range(2))
        assert first.trace == second.trace
        assert str(first.errors) == str(second.errors)
        assert first.results == second.results
        faults += len(first.script.faults)
    assert faults > 50


def test_every_seed_makes_another_run() -> None:
    traces = {outcome.trace for outcome in by_seed(Anything, range(100))}
    assert len(traces) == 100


def test_a_script_repeats_a_run() -> None:
    for outcome in by_seed(Anything, range(100)):
        script = Script.parse(str(outcome.script), seed=outcome.script.seed)
        again = run(Anything, script)
        assert again.trace == outcome.trace
        assert again.script == outcome.script


def traces(*words: str, hash_seed: int) -> dict[str, str]:
    """The last trace of each scenario, from a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "hoodoo.testing.sim", "--trace", *words],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
    ).stdout
    ended = re.split(r"^(\S+): \d+ runs.*$", told, flags=re.MULTILINE)
    return {
        name: text.strip("\n").rpartition("\n\n")[2]
        for text, name in zip(ended[::2], ended[1::2], strict=False)
    }


def test_every_process_repeats_a_run() -> None:
    first = traces("--seed", "3", hash_seed=1)
    assert set(first) == set(scenarios()) - FLAWED
    assert all(len(trace.splitlines()) > 20 for trace in first.values())
    # Neither what was run before nor the order of sets has a part in it.
    again = traces("--seed", "2", "--count", "2", hash_seed=2)
    assert first == again


@pytest.mark.parametrize("kind", Kind)
def test_every_fault_is_told_and_read(kind: Kind) -> None:
    fault = Fault(kind, 0 if kind.is_crash else -5)
    assert Fault.parse(str(fault)) == fault
    script = Script(7, {3: "a/one", 12: "b~1"}, {("b~1", 4): fault})
    assert Script.parse(str(script), seed=7) == script


@pytest.mark.parametrize("text", ["a", "3>", "a#1", "a#b=pause", "a#1=pause:x", "a#1=rain"])
def test_a_malformed_script_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Script.parse(text)
