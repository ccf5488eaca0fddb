"""Upkeep: a table left alone stays bounded, and a service that fails does no harm to a write."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import pairwise

import pytest
from support.writer_machines import EXPIRY_S, Machine, PowerCut, cut_power_at, rows
from support.writer_machines import Fleet as ManualFleet

from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, State, from_wall_ms
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.archive.archive import is_inline_archive_due
from hoodoo.services.upkeep import (
    ServiceOutcome,
    ServiceReport,
    run_due_services,
    run_inline_services,
)
from hoodoo.table.timeline import Timeline

pytestmark = pytest.mark.slow

INLINE = LocalEngine(threads=1)
OFF = {"hoodie.table.services.enabled": "false"}
AUTOMATIC = {"hoodie.clean.automatic": True, "hoodie.archive.automatic": True}
PAUSE_S = 30
"""Between commits, so that what is archived is old enough for that now and then."""


class Fleet(ManualFleet):
    """As it is for users: other tests look at writes alone."""

    def __init__(self, table_type: str, **options: object) -> None:
        super().__init__(table_type, **{**AUTOMATIC, **options})


def upsert(machine: Machine, number: int) -> None:
    machine.table.upsert(rows(**{f"k{key}": number for key in range(10)}))


def run(machine: Machine) -> list[ServiceReport]:
    return list(run_due_services(machine.ref, INLINE))


def actions(machine: Machine, state: State = State.COMPLETED) -> list[str]:
    return [i.action.value for i in machine.ref.load_timeline() if i.state is state]


def outcomes(done: list[ServiceReport]) -> list[tuple[str, ServiceOutcome]]:
    return [(each.service, each.outcome) for each in done]


# -- bounded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [110, pytest.param(200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_left_alone_stays_bounded(kind: str, commits: int) -> None:
    fleet = Fleet(kind)
    writer = fleet.machine("writer")
    objects, instants, logs, operations = [], [], [], []
    calls: Counter[str] = Counter()
    writer.storage.before(lambda verb, path: calls.update([verb]))
    for number in range(commits):
        before = calls.total()
        upsert(writer, number)
        operations.append(calls.total() - before)
        fleet.world.pass_time(PAUSE_S)
        timeline = writer.ref.load_timeline()
        objects.append(sum(1 for _ in fleet.store.list("", recursive=True)))
        instants.append(len(timeline))
        group = writer.table.files().groups[0]
        logs.append(len(group.slices[-1].log_files))
    assert writer.rows() == {f"k{key}": commits - 1 for key in range(10)}
    assert max(instants) <= 60
    assert max(logs) <= 5
    assert max(objects[-30:]) <= 1.3 * max(objects[40:80])
    assert sum(operations[-30:]) <= 1.3 * sum(operations[50:80])
    assert {"clean"} <= set(actions(writer))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("every", [1, 2, 3, 4, 9])
def test_commits_of_services_do_not_put_archival_off(kind: str, every: int) -> None:
    """Where services commit after every so many writes, some counts of commits are never met."""
    ref = Fleet(kind).machine("writer").ref
    write, service = (
        (Action.COMMIT, Action.REPLACE_COMMIT)
        if kind == "cow"
        else (Action.DELTA_COMMIT, Action.DELTA_COMMIT)  # compaction of logs
    )
    for before in range(every):
        commits: list[Instant] = []
        looks = []
        for number in range(120):
            actions = [write, service] if (number + before) % every == 0 else [write]
            for action in actions:
                time = from_wall_ms(1_767_225_600_000 + len(commits))
                commits.append(Instant(time, action, State.COMPLETED, time))
            if is_inline_archive_due(ref, Timeline(tuple(commits))):
                looks.append(len(commits))
        steps = [later - earlier for earlier, later in pairwise([30, *looks, len(commits)])]
        assert max(steps) <= 12
        assert len(looks) <= 0.4 * len(commits)


def test_without_services_a_table_grows() -> None:
    fleet = Fleet("cow", **OFF)
    writer = fleet.machine("writer")
    for number in range(40):
        upsert(writer, number)
        fleet.world.pass_time(PAUSE_S)
    assert actions(writer) == ["commit"] * 40
    assert len(fleet.data_files()) == 40


@pytest.mark.parametrize(
    ("kind", "key", "absent", "commits"),
    [
        ("mor", "hoodie.compact.inline", "commit", 16),
        ("cow", "hoodie.clean.automatic", "clean", 24),
        ("cow", "hoodie.archive.automatic", None, 45),
    ],
)
def test_each_service_can_be_switched_off(
    kind: str, key: str, absent: str | None, commits: int
) -> None:
    fleet = Fleet(kind, **{key: "false"})
    writer = fleet.machine("writer")
    for number in range(commits):
        upsert(writer, number)
        fleet.world.pass_time(PAUSE_S)
    done = actions(writer)
    assert absent not in done
    if key == "hoodie.archive.automatic":
        assert done.count("commit") == commits


def test_a_read_as_of_a_kept_commit_is_right_after_all_services() -> None:
    fleet = Fleet("mor")
    writer = fleet.machine("writer")
    written = {}
    for number in range(40):
        done = writer.table.upsert(rows(**{f"k{key}": number for key in range(10)}))
        written[done.instant] = number
        fleet.world.pass_time(PAUSE_S)
    for instant in list(written)[-8:]:
        read = writer.table.to_arrow(columns=["v"], as_of=instant)
        assert set(read["v"].to_pylist()) == {written[instant]}


# -- after a commit -----------------------------------------------------------------------------


def test_nothing_due_costs_one_listing() -> None:
    fleet = Fleet("mor")
    writer = fleet.machine("writer")
    upsert(writer, 1)
    calls: Counter[str] = Counter()
    writer.storage.before(lambda verb, path: calls.update([verb]))
    assert run_inline_services(writer.ref, INLINE) == []
    assert not calls


def test_the_timings_of_a_write_tell_of_its_upkeep() -> None:
    fleet = Fleet("mor")
    writer = fleet.machine("writer")
    timings = [writer.table.upsert(rows(k=number)).timings for number in range(5)]
    assert ["upkeep" in each for each in timings] == [False] * 4 + [True]


def test_a_compaction_is_only_planned_if_so_told() -> None:
    fleet = Fleet("mor", **{"hoodie.compact.schedule.inline": "true"})
    writer = fleet.machine("writer")
    for number in range(7):
        upsert(writer, number)
    assert actions(writer, State.REQUESTED) == ["compaction"]
    assert "commit" not in actions(writer)
    assert outcomes(run(writer))[0] == ("compaction", ServiceOutcome.DONE)
    assert actions(writer, State.REQUESTED) == []


def test_a_clustering_is_run_after_so_many_commits_if_asked_for() -> None:
    options = {"hoodie.clustering.inline": "true", "hoodie.parquet.small.file.limit": 0}
    fleet = Fleet("cow", **options)
    writer = fleet.machine("writer")
    for number in range(4):
        writer.table.insert(rows(**{f"k{number}": number}))
    assert actions(writer) == ["commit"] * 4 + ["replacecommit"]
    writer.table.insert(rows(k5=5))
    assert actions(writer)[-1] == "commit"


@pytest.mark.parametrize(
    "key", ["hoodie.clustering.schedule.inline", "hoodie.clustering.async.enabled"]
)
def test_a_clustering_is_only_planned_if_so_told(key: str) -> None:
    fleet = Fleet("cow", **{key: "true", "hoodie.parquet.small.file.limit": 0})
    writer = fleet.machine("writer")
    for number in range(4):
        writer.table.insert(rows(**{f"k{number}": number}))
    assert actions(writer, State.REQUESTED) == ["clustering"]
    (plan,) = writer.table.plans()
    assert plan.policy == "cancellable"
    assert outcomes(run(writer)) == [("clustering", ServiceOutcome.DONE)]


def test_the_policy_of_plans_is_a_setting() -> None:
    options = {
        "hoodie.clustering.schedule.inline": "true",
        "hoodie.parquet.small.file.limit": 0,
        "hoodie.table.service.plan.policy": "persistent",
    }
    fleet = Fleet("cow", **options)
    writer = fleet.machine("writer")
    for number in range(4):
        writer.table.insert(rows(**{f"k{number}": number}))
    assert [plan.policy for plan in writer.table.plans()] == ["persistent"]


def test_log_compaction_is_run_if_asked_for() -> None:
    options = {"hoodie.log.compaction.inline": "true", "hoodie.compact.inline": "false"}
    fleet = Fleet("mor", **options)
    writer = fleet.machine("writer")
    for number in range(7):
        upsert(writer, number)
    operations = [each.operation for each in writer.table.timeline()]
    assert operations.count("LOG_COMPACT") == 1
    assert writer.rows() == {f"k{key}": 6 for key in range(10)}


def test_a_service_that_fails_does_not_fail_the_write(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet("mor")
    writer = fleet.machine("writer")
    for number in range(4):
        upsert(writer, number)

    def refuse(verb: str, path: str) -> None:
        if path.endswith("compaction.inflight"):
            raise ValueError("a bug of ours")

    writer.storage.before(refuse)
    with caplog.at_level(logging.WARNING, "hoodoo.services"):
        upsert(writer, 4)
    assert writer.rows() == {f"k{key}": 4 for key in range(10)}
    assert actions(writer).count("deltacommit") == 5
    assert "ValueError: a bug of ours" in caplog.text
    writer.storage.leave_alone()
    fleet.world.pass_time(2 * EXPIRY_S)
    upsert(writer, 5)
    assert actions(writer).count("commit") == 1


def test_a_compaction_that_another_runs_is_left() -> None:
    fleet = Fleet("mor", **{"hoodie.compact.schedule.inline": "true"})
    planner, other = fleet.machine("planner"), fleet.machine("other")
    for number in range(5):
        upsert(planner, number)
    done: list[list[ServiceReport]] = []

    def meet(verb: str, path: str) -> None:
        """In the middle of one's compaction, the other does its upkeep."""
        if verb == "create" and path.startswith(paths.COMPLETIONS) and not done:
            done.append([])
            done[0] = run(other)

    planner.storage.before(meet)
    assert outcomes(run(planner))[0] == ("compaction", ServiceOutcome.DONE)
    assert ("compaction", ServiceOutcome.DONE) not in outcomes(done[0])
    assert actions(planner).count("commit") == 1


# -- a process of its own -----------------------------------------------------------------------


def test_upkeep_process_runs_services_when_writers_run_none() -> None:
    fleet = Fleet("mor")
    writer, upkeep = fleet.machine("writer", **OFF), fleet.machine("upkeep")
    for number in range(35):
        upsert(writer, number)
        fleet.world.pass_time(PAUSE_S)
    services = [service for service, _ in outcomes(run(upkeep))]
    assert services == ["compaction", "clean", "archive"]
    assert run(upkeep) == []
    assert upkeep.rows() == {f"k{key}": 34 for key in range(10)}


def test_a_plan_whose_executor_died_is_adopted() -> None:
    fleet = Fleet("mor", **{"hoodie.compact.schedule.inline": "true"})
    writer, upkeep = fleet.machine("writer"), fleet.machine("upkeep")
    for number in range(5):
        upsert(writer, number)
    (plan,) = writer.table.plans()
    cut_power_at(writer, "replace", "head$")
    with pytest.raises(PowerCut):
        writer.table.run_compaction(plan.instant)
    assert run(upkeep) == []
    fleet.die(writer)
    done = run(upkeep)
    assert ("compaction", ServiceOutcome.DONE) in outcomes(done)
    assert any("1 adopted" in each.text for each in done)


def test_an_overdue_plan_is_cancelled() -> None:
    fleet = Fleet("cow", **{"hoodie.parquet.small.file.limit": 0})
    writer = fleet.machine("writer")
    for number in range(2):
        writer.table.insert(rows(**{f"k{number}": number}))
    instant = writer.table.schedule_clustering(cancellable=True, cancellation_policy={"hours": 1})
    assert instant is not None
    fleet.world.pass_time(3600 + 1)
    assert ("cancel", ServiceOutcome.DONE) in outcomes(run(writer))
    assert actions(writer, State.ABORTED) == ["clustering"]


def test_a_dead_write_is_rolled_back() -> None:
    fleet = Fleet("cow")
    writer, upkeep = fleet.machine("writer"), fleet.machine("upkeep")
    upsert(writer, 1)
    cut_power_at(writer, "replace", "head$")
    with pytest.raises(PowerCut):
        upsert(writer, 2)
    fleet.die(writer)
    assert outcomes(run(upkeep))[0] == ("recover", ServiceOutcome.DONE)
    assert upkeep.rows() == {f"k{key}": 1 for key in range(10)}
