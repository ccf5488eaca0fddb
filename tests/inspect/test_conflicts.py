"""Reports of writes in progress: what they touch, who lives, and who will lose; then who does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.daily_table import (
    BLIND,
    LATE,
    MANUAL,
    NEXT_DAY,
    group_of,
    look,
    make_table,
    rows,
    upsert,
)
from support.dead_writes import (
    AFTER_DECISION,
    BEFORE_DECISION,
    EXPIRY_S,
    dead_upsert,
    die_over,
    make_older,
)
from support.paused_writes import ANNOUNCED, WRITTEN, pause_write

from hoodoo.errors import EarlyConflict, StorageError, WriteConflict
from hoodoo.inspect.conflicts import InProgressReport, report_conflicts
from hoodoo.model import paths
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

NO_ROLLBACK = {**MANUAL, "hoodie.clean.failed.writes.policy": "NEVER"}
BATCHED = {"hoodie.write.markers.type": "timeline_server_based"}
DIRECT = {"hoodie.write.markers.type": "direct"}


@pytest.fixture(params=["cow", "mor"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_table(tmp_path / "t", request.param)


def touched(report: InProgressReport) -> dict[str, str]:
    return {f"{each.partition}/{each.file_id}": each.touch for each in report.file_groups}


# -- writes -------------------------------------------------------------------------------------


def test_nothing_in_progress(place: Path) -> None:
    assert look(place) == []


@pytest.mark.parametrize("markers", [DIRECT, BATCHED])
@pytest.mark.parametrize("point", [ANNOUNCED, WRITTEN])
def test_a_write_is_told_with_its_owner_and_its_file_groups(
    place: Path, markers: dict[str, object], point: tuple[str, str]
) -> None:
    options = {**MANUAL, **markers}
    with pause_write(place, upsert(a=2, new=1), at=point, options=options) as write:
        (report,) = look(place)
    assert (report.instant, report.status, report.state) == (write.instant, "running", "inflight")
    assert (report.operation, report.phase, report.policy) == ("UPSERT", "begin", None)
    assert report.app
    assert report.host
    assert report.pid
    assert report.age_seconds is not None
    assert (report.clashes, report.problems) == ((), ())
    how = "rewrite" if report.action == "commit" else "append"
    found = touched(report)
    assert found.pop(group_of(place, "a")) == how
    # New file groups have no id before their files are announced.
    assert list(found.values()) == ([] if point is ANNOUNCED else ["create"])


@pytest.mark.parametrize("markers", [DIRECT, BATCHED])
def test_the_younger_of_two_writes_loses_and_then_does(
    place: Path, markers: dict[str, object]
) -> None:
    shared = group_of(place, "a")
    options = {**LATE, **markers}
    with (
        pause_write(place, upsert(a=2, b=2), options={**MANUAL, **markers}) as older,
        pause_write(place, upsert(a=3, c=3), at=ANNOUNCED, options=options) as younger,
    ):
        first, second = look(place)
        assert first.clashes == ()
        (clash,) = second.clashes
        assert (clash.older, clash.loser) == (older.instant, younger.instant)
        assert clash.outcome == "loses"
        (overlap,) = clash.overlaps
        assert (overlap.reason, overlap.file_groups) == ("it writes to", (shared,))
        with pytest.raises(EarlyConflict) as error:
            younger.go_on()
        assert error.value.conflicting_instants == (older.instant,)
        assert error.value.file_groups == (shared,)
        older.go_on()
    assert look(place) == []


def test_without_early_detection_whichever_commits_second_loses(place: Path) -> None:
    with (
        pause_write(place, upsert(a=2), options=BLIND),
        pause_write(place, upsert(a=3), options=BLIND) as younger,
    ):
        _, second = look(place, **BLIND)
        (clash,) = second.clashes
        assert (clash.outcome, clash.loser) == ("second loses", None)
        assert clash.overlaps[0].file_groups == (group_of(place, "a"),)
        younger.go_on()


def test_writes_of_different_file_groups_do_not_clash(place: Path) -> None:
    with (
        pause_write(place, upsert(a=2), options=MANUAL),
        pause_write(place, upsert(b=2, d=1), options=MANUAL),
        pause_write(place, upsert(NEXT_DAY, a=2), options=MANUAL),
    ):
        reports = look(place)
        assert len(reports) == 3
        assert all(not each.clashes for each in reports)


def test_each_pair_of_three_writes_is_told_once(place: Path) -> None:
    with (
        pause_write(place, upsert(a=2), options=BLIND) as first,
        pause_write(place, upsert(a=3, b=3), options=BLIND) as second,
        pause_write(place, upsert(a=4, b=4, c=4), options=BLIND) as third,
    ):
        told = [
            (clash.older, clash.loser, len(clash.overlaps[0].file_groups))
            for report in look(place)
            for clash in report.clashes
        ]
    assert told == [
        (first.instant, second.instant, 1),
        (first.instant, third.instant, 1),
        (second.instant, third.instant, 2),
    ]


@pytest.mark.parametrize("markers", [DIRECT, BATCHED])
def test_new_file_groups_of_one_bucket_clash(tmp_path: Path, markers: dict[str, object]) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1}
    place = make_table(tmp_path / "t", "mor", **options)
    new = {**BLIND, **options, **markers}
    with (
        pause_write(place, upsert(NEXT_DAY, x=1), options=new) as older,
        pause_write(place, upsert(NEXT_DAY, y=1), options=new) as younger,
    ):
        _, report = look(place, **options)
        (clash,) = report.clashes
        assert (clash.older, clash.loser) == (older.instant, younger.instant)


def test_a_committed_write_and_its_leftovers_are_not_told(place: Path) -> None:
    with pause_write(place, upsert(a=2, d=1), options=MANUAL) as write:
        temp = place / paths.marker_directory(write.instant)
        left = {file: file.read_bytes() for file in temp.rglob("*") if file.is_file()}
        write.go_on()
    assert left
    for file, data in left.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    with pause_write(place, upsert(a=3), options=NO_ROLLBACK):
        (report,) = look(place)
        assert report.clashes == ()


# -- the dead -----------------------------------------------------------------------------------


def test_a_dead_write_is_told_as_dead_and_wins_nothing(place: Path) -> None:
    dead = dead_upsert(place, rows(a=2))
    with pause_write(place, upsert(a=3), options=NO_ROLLBACK) as living:
        first, second = look(place)
    assert (first.instant, first.status) == (dead, "dead")
    assert first.app == "nightly load"
    assert first.silent_seconds is not None
    assert first.silent_seconds > EXPIRY_S
    assert list(touched(first)) == [group_of(place, "a")]
    assert (second.instant, second.status, second.clashes) == (living.instant, "running", ())


def test_a_dead_write_loses_nothing_either(place: Path) -> None:
    with pause_write(place, upsert(a=2), options=BLIND):
        dead = die_over(place, upsert(a=3), at=BEFORE_DECISION, options=BLIND)
        make_older(place / paths.heartbeat(dead), EXPIRY_S + 100)
        first, second = look(place)
    assert (first.status, second.status, second.clashes) == ("running", "dead", ())


def test_a_write_that_is_being_rolled_back_wins_nothing(tmp_path: Path) -> None:
    place = make_table(tmp_path / "t")
    dead = dead_upsert(place, rows(a=2))
    rollback = die_over(place, lambda table: table.recover(), at=r"event_date=")
    (place / paths.heartbeat(dead)).touch()  # as if its writer had woken up
    with pause_write(place, upsert(a=3), options=NO_ROLLBACK):
        first, second = look(place)
    assert (first.instant, first.status) == (dead, "being rolled back")
    assert second.clashes == ()
    assert rollback not in (first.instant, second.instant)


def test_a_decided_write_wins_though_its_writer_died(place: Path) -> None:
    with pause_write(place, upsert(a=3), options=BLIND) as older:
        # The younger one has decided, and died before its commit was visible.
        decided = die_over(place, upsert(a=2), at=AFTER_DECISION, options=BLIND)
        first, second = look(place, **BLIND)
        assert (second.instant, second.status) == (decided, "committed")
        (clash,) = second.clashes
        assert (clash.outcome, clash.loser) == ("loses", older.instant)
        with pytest.raises(WriteConflict):
            older.go_on()
    assert first.instant == older.instant


# -- what cannot be read ------------------------------------------------------------------------


def test_unreadable_markers_of_one_write_are_told_and_hide_no_other(place: Path) -> None:
    options = {**BLIND, **BATCHED}
    with (
        pause_write(place, upsert(a=2, x=1), options=options) as first,
        pause_write(place, upsert(b=3), options=options),
        pause_write(place, upsert(a=3, b=4), options=options),
    ):
        broken = paths.marker_directory(first.instant)

        def fail(verb: str, path: str) -> None:
            if verb == "read" and path.startswith(broken):
                raise StorageError(path, "the disk is on fire")

        storage = TracedStorage(open_storage(str(place)), before=fail)
        reports = report_conflicts(open_ref(str(place), MANUAL, Env(storage)))
    assert [len(each.problems) for each in reports] == [1, 0, 0]
    assert "the disk is on fire" in reports[0].problems[0]
    # The profile tells of the updates all the same.
    assert list(touched(reports[0])) == [group_of(place, "a")]
    assert [len(each.clashes) for each in reports] == [0, 0, 2]


def test_a_batch_that_is_damaged_is_told(place: Path) -> None:
    with pause_write(place, upsert(a=2), options={**BLIND, **BATCHED}) as write:
        (batch,) = (place / paths.marker_directory(write.instant)).glob("MARKERS[0-9]*")
        batch.write_bytes(b"no marker\n" + batch.read_bytes())
        (report,) = look(place)
    assert len(report.problems) == 1
    assert "no marker" in report.problems[0]
    assert list(touched(report)) == [group_of(place, "a")]


def test_a_damaged_profile_is_told(place: Path) -> None:
    with pause_write(place, upsert(a=2), options=BLIND) as write:
        (inflight,) = (place / ".hoodie/timeline").glob(f"{write.instant}.*inflight")
        whole = inflight.read_bytes()
        inflight.write_bytes(b"not a profile")
        (report,) = look(place)
        inflight.write_bytes(whole)
    assert len(report.problems) == 1
    assert write.instant in report.problems[0]
    assert list(touched(report)) == [group_of(place, "a")]  # by its markers


def test_looking_writes_nothing(place: Path) -> None:
    verbs = set()
    with (
        pause_write(place, upsert(a=2), options=BLIND),
        pause_write(place, upsert(a=3), options=BLIND),
    ):
        seen = TracedStorage(open_storage(str(place)), before=lambda verb, path: verbs.add(verb))
        reports = report_conflicts(open_ref(str(place), MANUAL, Env(seen)))
    assert len(reports[1].clashes) == 1
    assert verbs <= {"read", "stat", "list"}
