"""Plans of table services in the simulator: seeds, a fault at every operation, and mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.simulations import (
    Record,
    explore_faults,
    explore_seeds,
    find_violation,
    share_of_faults,
)

from hoodoo.concurrency.transactions import gate
from hoodoo.format import json_files
from hoodoo.model import paths
from hoodoo.model.coordination import CancelRequest, Decision
from hoodoo.model.instant import InstantTime
from hoodoo.services.plans import cancel, pending
from hoodoo_testing.simulator.scenarios import services
from hoodoo_testing.simulator.scenarios.services import PlanScenario
from hoodoo_testing.simulator.search.explore import POINTS, by_seed
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("scenario", services.SCENARIOS, ids=lambda each: each.name)
def test_plans_end_once_whatever_goes_wrong(
    scenario: type[PlanScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario)


PAIRS = (
    (services.Execution, "x"),
    (services.RemovableExecution, "x"),
    (services.Cancelling, "c"),
    (services.Cancelling, "x"),
    (services.YieldingToWrite, "w1"),
    (services.ClusteringYields, "w1"),
)
"""Scenarios, and whose operations fail in turn."""
MORE_PAIRS = (
    (services.LogCompactionExecution, "x"),
    (services.ClusteringYields, "x"),
    (services.YieldingToWrite, "x"),
    (services.Takeover, "y"),
    (services.ClusteringExecution, "x"),
    (services.ClusteringTakeover, "y"),
    (services.RemovableClustering, "x"),
    (services.CancellingClustering, "c"),
    (services.CancellingClustering, "x"),
    (services.ClusteringYieldsMor, "w1"),
    (services.ClusteringYieldsMor, "x"),
    (services.ClusteringBesidePreferred, "x"),
    (services.ClusteringBesidePreferred, "w"),
    (services.LogCompactionTakeover, "y"),
    (services.RemovableLogCompaction, "x"),
    (services.CancellingLogCompaction, "c"),
    (services.CancellingLogCompaction, "x"),
    (services.LogCompactionYields, "w1"),
    (services.LogCompactionYields, "x"),
)


@share_of_faults(7)
@pytest.mark.parametrize(
    ("scenario", "actor"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in MORE_PAIRS)],
)
def test_plans_survive_a_fault_at_every_operation(
    scenario: type[PlanScenario], actor: str, step: int, record_property: Record
) -> None:
    explore_faults(record_property, scenario, actor, (*POINTS, *LATE), step)


# -- mutants ------------------------------------------------------------------------------------


def does_not_ask_for_cancels(patch: Patch) -> None:
    """The gate does not look whether the plan was cancelled."""
    patch.setattr(gate, "_refuse_cancelled", lambda *args: None)


def cancels_before_it_commits(patch: Patch) -> None:
    """A write ends the plans in its way before it is decided that it is committed."""
    take_head = gate._take_head

    def hasty(txn: Any, decision: Decision) -> None:
        for time in decision.cancels:
            txn.env.storage.put(paths.cancel_path(InstantTime(time)), _request(decision))
        take_head(txn, decision)

    patch.setattr(gate, "_take_head", hasty)


def _request(decision: Decision) -> bytes:
    return json_files.encode(CancelRequest.give_way(decision.owner, decision.instant))


def executes_beside_the_living(patch: Patch) -> None:
    """An executor does not look whether another one is alive."""
    judge = pending.choose_execution_step

    def careless(*args: Any, **given: Any) -> pending.ExecutionStep:
        return judge(*args, **{**given, "is_guarded": False})

    patch.setattr(pending, "choose_execution_step", careless)


def cancels_beside_the_living(patch: Patch) -> None:
    """A cancel is carried out though an executor is alive."""
    patch.setattr(cancel, "_refuse_alive", lambda *args: None)


@pytest.mark.parametrize(
    ("mutate", "scenario"),
    [
        (does_not_ask_for_cancels, services.Cancelling),
        (cancels_before_it_commits, services.YieldingToWrite),
        (executes_beside_the_living, services.Execution),
        (executes_beside_the_living, services.ClusteringExecution),
        (cancels_beside_the_living, services.Cancelling),
    ],
)
def test_the_simulator_finds_a_protocol_that_lacks_a_thought(
    mutate: Callable[[Patch], None],
    scenario: type[PlanScenario],
    monkeypatch: Patch,
) -> None:
    mutate(monkeypatch)
    find_violation(mutate.__name__, by_seed(scenario, range(200)))
