"""Indexes that are built beside writers: design 004, by crashes, interleavings and seeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from support.simulations import Record, explore, explore_seeds, find_violation

from hoodoo.metadata_table import recorder
from hoodoo.model.table import TableProperties
from hoodoo.services.indexing import build
from hoodoo.services.indexing.plan import IndexBuild
from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.scenarios import indexing
from hoodoo_testing.simulator.scenarios.indexing import IndexingScenario
from hoodoo_testing.simulator.search.explore import POINTS, by_faults, by_preemptions, fault_points
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

CRASH = (Fault(FaultKind.CRASH_BEFORE),)
LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))
IN_CI = 7
"""Of so many operations one is crashed in CI, and all at night."""

CRASHES = pytest.mark.parametrize(
    ("scenario", "actor"),
    [
        (indexing.Case1WriterFails, "w"),
        (indexing.Case2IndexerFails, "index"),
        (indexing.Case2IndexerFailsMor, "index"),
    ],
)
INTERLEAVED = [
    indexing.Case3aPlannedBefore,
    indexing.Case3bPublishedMeanwhile,
    indexing.Case3cScheduledMeanwhile,
]
BY_SEED = [
    indexing.Case4TableServices,
    indexing.MultiWriter,
    indexing.DroppedMeanwhile,
    indexing.PausedIndexer,
]


@CRASHES
def test_no_entry_is_missing_after_a_crash(
    scenario: type[IndexingScenario], actor: str, record_property: Record
) -> None:
    points = fault_points(scenario, actor, faults=CRASH)[::IN_CI]
    outcomes = (run(scenario, point) for point in points)
    found = explore(record_property, f"{scenario.name}, crashes", outcomes)
    assert found.is_complete
    assert found.runs > 8


@pytest.mark.nightly
@CRASHES
def test_no_entry_is_missing_with_a_fault_at_every_operation(
    scenario: type[IndexingScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete


def test_writer_that_saw_no_plan_may_commit_at_any_moment(record_property: Record) -> None:
    scenario = indexing.Case3cScheduledMeanwhile
    found = explore(
        record_property, f"{scenario.name}, one preemption", by_preemptions(scenario, 1)
    )
    assert found.is_complete
    assert found.runs > 60


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", INTERLEAVED)
def test_writer_may_be_interrupted_twice(
    scenario: type[IndexingScenario], record_property: Record
) -> None:
    outcomes = by_preemptions(scenario, 2)
    explore(record_property, f"{scenario.name}, two preemptions", outcomes, cap=4000)


@pytest.mark.parametrize("scenario", BY_SEED)
def test_no_entry_is_missing_by_seed(
    scenario: type[IndexingScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=4)


# -- proof that the simulator can fail ------------------------------------------------------------

Patch = pytest.MonkeyPatch


def keeps_only_complete_indexes(patch: Patch) -> None:
    """Writers leave partitions out that are being built, and nobody makes up for it."""

    def complete(properties: TableProperties) -> frozenset[str]:
        return frozenset(properties.metadata_partitions)

    patch.setattr(recorder, "partitions_to_update", complete)
    patch.setattr(build, "catch_up", lambda *args: None)


def builds_from_all_files(patch: Patch) -> None:
    """The base files have what writers add themselves, too."""
    patch.setattr(IndexBuild, "has_seen", lambda build, instant: True)


@pytest.mark.parametrize("mutate", [keeps_only_complete_indexes, builds_from_all_files])
def test_carelessness_is_found(
    mutate: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        mutate(patch)
        outcomes = by_preemptions(indexing.Case3aPlannedBefore, 1)
        find_violation(mutate.__name__, islice(outcomes, 60))
