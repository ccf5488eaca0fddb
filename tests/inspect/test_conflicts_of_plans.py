"""Reports of pending plans and overwrites beside writes in progress: who will lose, and does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.daily_table import (
    BLIND,
    DAY,
    LATE,
    MANUAL,
    NEXT_DAY,
    group_of,
    look,
    make_table,
    rows,
    upsert,
)
from support.dead_writes import EXPIRY_S, make_older
from support.paused_writes import ANNOUNCED, pause_write

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import WriteConflict
from hoodoo.inspect.conflicts import InProgressReport
from hoodoo.model import paths
from hoodoo.services.plans.pending import OwnedPlan, own_plan
from hoodoo.table.ref import open_ref

PREFER_WRITER = {"hoodie.write.lock.conflict.resolution.strategy": "prefer_writer"}
Work = Callable[[Table], object]


@pytest.fixture(params=["cow", "mor"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_table(tmp_path / "t", request.param)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A merge-on-read table with a log in the file group of a."""
    place = make_table(tmp_path / "t", "mor")
    open_manual(place).upsert(rows(a=2))
    return place


def open_manual(place: Path) -> Table:
    return hoodoo.open_table(str(place), MANUAL)


def hide_plan(place: Path, plan: str | None) -> tuple[Path, bytes]:
    """Take a plan off the timeline, for a write to begin."""
    open_manual(place).insert(rows(NEXT_DAY, other=1))  # whoever comes repeats the last decision
    (file,) = (place / ".hoodie/timeline").glob(f"{plan}.*.requested")
    content = file.read_bytes()
    file.unlink()
    return file, content


def told(reports: list[InProgressReport]) -> list[tuple[str, str | None]]:
    return [(clash.outcome, clash.loser) for report in reports for clash in report.clashes]


# -- clusterings --------------------------------------------------------------------------------


def test_a_cancellable_clustering_loses_to_a_write_and_then_does(place: Path) -> None:
    table = open_manual(place)
    plan = table.schedule_clustering(cancellable=True)
    with pause_write(place, upsert(a=2), options=MANUAL) as write:
        first, second = look(place)
        assert (first.instant, first.status, first.policy) == (plan, "waiting", "cancellable")
        assert (first.operation, first.app, len(first.file_groups)) == ("clustering", None, 3)
        (clash,) = second.clashes
        assert (clash.outcome, clash.loser) == ("loses", plan)
        assert clash.overlaps[0].file_groups == (group_of(place, "a"),)
        write.go_on()
    (ended,) = look(place)
    assert (ended.instant, ended.status) == (plan, "cancel requested")


def test_a_cancellable_clustering_passes_a_write_that_only_adds_file_groups(place: Path) -> None:
    open_manual(place).schedule_clustering(cancellable=True)
    with pause_write(place, upsert(new=2), options=MANUAL):
        assert told(look(place)) == []


def test_a_write_loses_to_a_persistent_clustering_and_then_does(place: Path) -> None:
    plan = open_manual(place).schedule_clustering()
    file, content = hide_plan(place, plan)  # nobody plans what is written to, but Apache Hudi does
    with pause_write(place, upsert(a=2), options=BLIND) as write:
        file.write_bytes(content)
        first, second = look(place)
        assert (first.instant, first.policy, first.clashes) == (plan, "persistent", ())
        (clash,) = second.clashes
        assert (clash.older, clash.outcome, clash.loser) == (plan, "loses", write.instant)
        with pytest.raises(WriteConflict) as error:
            write.go_on()
    assert error.value.conflicting_instants == (plan,)
    assert error.value.file_groups == clash.overlaps[0].file_groups == (group_of(place, "a"),)


def test_a_persistent_clustering_loses_where_writers_are_preferred(place: Path) -> None:
    plan = open_manual(place).schedule_clustering()
    with pause_write(place, upsert(a=2), options={**MANUAL, **PREFER_WRITER}):
        assert told(look(place, **PREFER_WRITER)) == [("loses", plan)]


def test_a_plan_whose_executor_died_is_still_in_the_way(place: Path) -> None:
    plan = open_manual(place).schedule_clustering()
    assert plan is not None
    owned = own_plan(open_ref(str(place)), plan)
    assert isinstance(owned, OwnedPlan)
    try:
        make_older(place / paths.heartbeat(owned.time), EXPIRY_S + 100)
        with pause_write(place, upsert(a=2), options={**MANUAL, **PREFER_WRITER}) as write:
            first, second = look(place)
    finally:
        owned.attempt.heartbeat.release()
    assert (first.instant, first.status, first.state) == (plan, "dead", "inflight")
    assert told([first, second]) == [("loses", write.instant)]


def test_a_plan_whose_end_was_requested_loses_to_nobody_any_more(place: Path) -> None:
    table = open_manual(place)
    plan = table.schedule_clustering(cancellable=True)
    assert plan is not None
    table.request_cancel(plan)
    options = {**BLIND, "hoodie.clean.failed.writes.policy": "NEVER"}
    with pause_write(place, upsert(a=2), options=options):
        first, second = look(place)
    assert (first.instant, first.status) == (plan, "cancel requested")
    assert told([second]) == [("both commit", None)]


# -- compactions --------------------------------------------------------------------------------


def test_a_compaction_and_an_append_both_commit(logs: Path) -> None:
    table = open_manual(logs)
    plan = table.schedule_compaction()
    with pause_write(logs, upsert(a=3), options=MANUAL) as write:
        assert told(look(logs)) == [("both commit", None)]
        assert table.run_compaction(plan) is not None
        write.go_on()


def test_a_compaction_loses_if_an_overwrite_commits_first_and_then_does(logs: Path) -> None:
    table = open_manual(logs)
    plan = table.schedule_compaction()
    with pause_write(logs, overwrite(z=1), options=MANUAL) as write:
        assert told(look(logs)) == [("loses if second", plan)]
        write.go_on()
    with pytest.raises(WriteConflict):
        table.run_compaction(plan)


# -- overwrites ---------------------------------------------------------------------------------


def overwrite(day: str = DAY, **values: int) -> Work:
    return lambda table: table.insert_overwrite(rows(day, **values))


def drop_day(table: Table) -> object:
    return table.delete_partitions([f"event_date={DAY}"])


@pytest.mark.parametrize(
    ("older", "younger", "reason"),
    [
        (upsert(a=2), overwrite(z=1), "it writes to"),
        (upsert(new=2), overwrite(z=1), "it adds rows in"),
        (upsert(a=2), drop_day, "it writes to"),
        (upsert(new=2), drop_day, "it adds rows in"),
        (overwrite(z=1), overwrite(z=2), "it replaces"),
        (overwrite(z=1), upsert(a=2), "it replaces"),
        (drop_day, upsert(a=2), "it replaces"),
        (upsert(NEXT_DAY, n=1), lambda t: t.insert_overwrite_table(rows(z=2)), "it adds rows in"),
        (lambda t: t.insert_overwrite_table(rows(z=2)), upsert(b=2), "it replaces"),
    ],
)
def test_the_younger_one_of_an_overwrite_and_a_write_loses(
    place: Path, older: Work, younger: Work, reason: str
) -> None:
    with (
        pause_write(place, older, options=BLIND),
        pause_write(place, younger, options=BLIND) as second,
    ):
        reports = look(place)
        assert told(reports) == [("loses", second.instant)]
        assert reason in {overlap.reason for overlap in reports[1].clashes[0].overlaps}


def test_an_older_overwrite_loses_if_new_rows_commit_first_and_then_does(place: Path) -> None:
    with (
        pause_write(place, overwrite(z=1), options=LATE) as older,
        pause_write(place, upsert(new=2), options=LATE) as younger,
    ):
        assert told(look(place)) == [("loses if second", older.instant)]
        younger.go_on()
        with pytest.raises(WriteConflict):
            older.go_on()


def test_overwrites_of_different_partitions_do_not_clash(place: Path) -> None:
    with (
        pause_write(place, overwrite(z=1), options=MANUAL),
        pause_write(place, overwrite(NEXT_DAY, z=1), options=MANUAL),
        pause_write(place, upsert(NEXT_DAY, y=1), options=BLIND) as third,
    ):
        reports = look(place)
        assert [len(each.clashes) for each in reports] == [0, 0, 1]
        assert told(reports)[0][1] != third.instant


def test_the_younger_overwrite_is_stopped_as_told(place: Path) -> None:
    with (
        pause_write(place, upsert(a=2), options=MANUAL) as older,
        pause_write(place, overwrite(z=1), at=ANNOUNCED, options=LATE) as younger,
    ):
        assert told(look(place)) == [("loses", younger.instant)]
        older.go_on()
        with pytest.raises(WriteConflict):
            younger.go_on()
