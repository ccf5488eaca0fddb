"""What a service that died leaves behind: somebody must be able to end it, or to tell of it."""

from __future__ import annotations

import pytest
from support.laboratory import HEAD_FILE, MINUTE_S, Laboratory, find_pending, rows, try_to

SHORT_TIMELINE = {
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.clean.commits.retained": 1,
    "hoodie.clean.trigger.max.commits": 1,
}


# -- index builds ---------------------------------------------------------------------------------


def schedule_index_and_die(laboratory: Laboratory) -> None:
    """Die between the decision that lists the index as in the making, and the plan."""
    laboratory.open().insert(rows(("a", "p", 1)))
    planner = laboratory.machine("planner")
    planner.die_before("replace", HEAD_FILE, skip=1)
    planner.die_over(lambda: planner.table.schedule_index("bloom_filters"))


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.15: index scheduling that dies between its two decisions leaves an index in the "
    "making without a plan, and recovery does not end it",
)
def test_recovery_ends_an_index_in_the_making_that_has_no_plan() -> None:
    laboratory = Laboratory(has_metadata=True)
    schedule_index_and_die(laboratory)
    laboratory.settle()
    properties = laboratory.machine("reader").ref.properties
    assert list(properties.metadata_partitions_inflight) == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.15: index scheduling that dies between its two decisions leaves an index in the "
    "making without a plan, and doctor says that all is well",
)
def test_doctor_tells_of_an_index_in_the_making_that_has_no_plan() -> None:
    laboratory = Laboratory(has_metadata=True)
    schedule_index_and_die(laboratory)
    laboratory.world.pass_time(30 * MINUTE_S)
    findings = [f"{each.problem} {each.cause}" for each in laboratory.open().doctor()]
    assert any("bloom_filters" in text for text in findings), findings


# -- savepoints -----------------------------------------------------------------------------------


def write_commits(laboratory: Laboratory, *, first: int = 0) -> list[str]:
    table = laboratory.open()
    instants: list[str] = []
    for v in range(first, first + 6):
        instants.append(table.upsert(rows(("a", "p", v))).instant)
        laboratory.world.pass_time(30 * MINUTE_S)
    return instants


def keep_and_die(laboratory: Laboratory) -> str:
    """The commit of a savepoint whose maker died over it."""
    instant = write_commits(laboratory)[1]
    keeper = laboratory.machine("keeper")
    keeper.die_after("create", r"\.savepoint\.inflight$")
    keeper.die_over(lambda: keeper.table.savepoint(instant))
    return instant


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: a savepoint whose maker died stops archival for good",
)
def test_archival_goes_on_after_the_maker_of_a_savepoint_died() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    keep_and_die(laboratory)
    laboratory.settle()
    last = write_commits(laboratory, first=10)[-1]
    for _ in range(2):
        table = laboratory.open()
        table.clean()
        table.archive()
        laboratory.world.pass_time(30 * MINUTE_S)
    commits = [each for each in table.timeline() if each.action == "commit"]
    assert commits[-1].requested_time == last
    assert len(commits) <= SHORT_TIMELINE["hoodie.keep.max.commits"]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: doctor does not tell of a savepoint whose maker died",
)
def test_doctor_tells_of_a_savepoint_whose_maker_died() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    instant = keep_and_die(laboratory)
    laboratory.world.pass_time(30 * MINUTE_S)
    findings = [f"{each.problem} {each.cause}" for each in laboratory.open().doctor()]
    assert any("savepoint" in text and instant in text for text in findings), findings


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: recovery leaves a savepoint whose maker died",
)
def test_recovery_ends_a_savepoint_whose_maker_died() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    keep_and_die(laboratory)
    laboratory.settle()
    assert find_pending(laboratory.open()) == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: a savepoint that is refused because of a clean stays inflight",
)
def test_a_savepoint_that_is_refused_leaves_nothing_behind() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    instant = write_commits(laboratory)[1]
    cleaner = laboratory.machine("cleaner")

    def keep() -> None:
        try_to(lambda: laboratory.open().savepoint(instant))

    cleaner.let_others_work_before("delete", r"^part=p/", keep)
    cleaner.table.clean()
    cleaner.check_events()
    laboratory.settle()
    assert find_pending(laboratory.open()) == []
