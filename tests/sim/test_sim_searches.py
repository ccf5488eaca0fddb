"""Searches of the simulator, on toy locks: what they find, shrink and count."""

from __future__ import annotations

import pytest
from inline_scenarios import Play, puts

from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.scenarios.toys import CreatedLock, LeasedLock, NaiveLock
from hoodoo_testing.simulator.search.explore import (
    by_faults,
    by_preemptions,
    by_seed,
    fault_points,
    search,
    shrink,
)
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import Chances, Script
from hoodoo_testing.simulator.world.stage import Violation

pytestmark = pytest.mark.slow


def test_a_lock_that_is_none_breaks_by_seed() -> None:
    found = search(by_seed(NaiveLock, range(200)))
    (failure,) = found.failures
    assert failure.violation is not None
    assert failure.violation.startswith("counted")
    assert failure.command == f"make sim SCENARIO=toy-naive-lock SEED={failure.script.seed}"


def test_a_lock_that_is_none_breaks_with_two_preemptions() -> None:
    assert search(by_preemptions(NaiveLock, 1)).is_complete
    found = search(by_preemptions(NaiveLock, 3))
    (failure,) = found.failures
    assert len(failure.script.picks) == 2
    assert not found.is_complete
    assert failure.command.endswith(f"SCRIPT='{failure.script}'")


def test_a_failure_is_repeated_by_its_script() -> None:
    (failure,) = search(by_seed(NaiveLock, range(200))).failures
    again = run(NaiveLock, Script.parse(str(failure.script), seed=failure.script.seed))
    assert again.violation == failure.violation
    assert again.trace == failure.trace
    with pytest.raises(Violation) as raised:
        again.verify()
    for part in (failure.trace, failure.violation, again.command):
        assert part in str(raised.value)


def test_a_failure_shrinks_to_a_few_choices() -> None:
    (failure,) = search(by_seed(NaiveLock, range(200), chances=Chances(stay=0.0))).failures
    smaller = shrink(NaiveLock, failure)
    assert smaller.violation is not None
    assert len(smaller.script) <= 4 < len(failure.script) / 2


def test_a_sound_lock_never_breaks() -> None:
    for found in (
        search(by_preemptions(CreatedLock, 2)),
        search(by_seed(CreatedLock, range(300))),
        search(by_faults(CreatedLock, "a")),
    ):
        found.verify()
        assert found.is_complete
        assert found.runs > 40


def test_a_lease_breaks_when_its_holder_pauses() -> None:
    assert search(by_preemptions(LeasedLock, 2)).is_complete
    pauses = [Fault(FaultKind.PAUSE, 25_000)]
    found = search(by_faults(LeasedLock, "a", faults=pauses), failures=100)
    assert found.failures
    # Paused for longer than a request can be on its way, the write that hurts does not land.
    longer = [Fault(FaultKind.PAUSE, 31_000)]
    safe = search(by_faults(LeasedLock, "a", faults=longer), failures=100)
    assert len(safe.failures) < len(found.failures)


def test_fault_points_are_those_of_one_actor() -> None:
    cast = {"a": puts("x", "y"), "b": lambda env: env.storage.exists("x")}
    points = fault_points(lambda: Play(cast), "a")
    assert [str(point) for point in points] == [
        f"a#{number}={kind}"
        for number in (1, 2)
        for kind in ("crash_before", "crash_after", "lost_response", "lost_request")
    ]
    (point,) = fault_points(lambda: Play(cast), "b")  # the others say nothing new of a read
    assert str(point) == "b#1=crash_before"
    with pytest.raises(ValueError, match="c does nothing"):
        fault_points(lambda: Play(cast), "c")


def test_a_capped_search_stops_and_is_not_complete() -> None:
    found = search(by_preemptions(CreatedLock, 2), cap=10)
    assert (found.runs, found.is_complete, found.failures) == (10, False, ())
