"""Indexes that are built beside writers: design 004, by crashes, interleavings and seeds."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo.testing.sim.explore import POINTS, by_faults
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenarios import indexing
from hoodoo.testing.sim.scenarios.indexing import IndexingScenario

CRASH = (Fault(Kind.CRASH_BEFORE),)
LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))

CRASHES = [
    (indexing.Case1WriterFails, "w"),
    (indexing.Case2IndexerFails, "index"),
    (indexing.Case2IndexerFailsMor, "index"),
]
INTERLEAVED = [
    indexing.Case3aPlannedBefore,
    indexing.Case3bPublishedMeanwhile,
    indexing.Case3cScheduledMeanwhile,
]


@pytest.mark.parametrize(("scenario", "actor"), CRASHES)
def test_no_entry_is_missing_with_a_crash_before_every_operation(
    scenario: type[IndexingScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=CRASH)
    found = explore(record_property, f"{scenario.name}, crashes at every operation", outcomes)
    assert found.is_complete
    assert found.runs > 30


@pytest.mark.nightly
@pytest.mark.parametrize(("scenario", "actor"), CRASHES)
def test_no_entry_is_missing_with_a_fault_at_every_operation(
    scenario: type[IndexingScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete


@pytest.mark.parametrize("scenario", INTERLEAVED)
def test_writer_that_saw_no_index_may_commit_at_any_moment(
    scenario: type[IndexingScenario], record_property: Record
) -> None:
    outcomes = by_preemptions(scenario, 1)
    found = explore(record_property, f"{scenario.name}, one preemption", outcomes)
    assert found.is_complete


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", INTERLEAVED)
def test_writer_that_saw_no_index_may_be_interrupted_twice(
    scenario: type[IndexingScenario], record_property: Record
) -> None:
    explore(
        record_property, f"{scenario.name}, two preemptions", by_preemptions(scenario, 2), cap=4000
    )


@pytest.mark.parametrize(
    "scenario",
    [
        indexing.Case4TableServices,
        indexing.MultiWriter,
        indexing.DroppedMeanwhile,
        indexing.PausedIndexer,
    ],
)
def test_no_entry_is_missing_by_seed(
    scenario: type[IndexingScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=10)
