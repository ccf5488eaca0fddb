"""Reports of writes in progress: what they touch, who lives, and who will lose; then who does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import EXPIRY_S, dead_upsert, die_over, make_older
from support.paused_writes import ANNOUNCED, WRITTEN, pause_write
from support.writer_machines import Fleet, PowerCut, begin_commit, cut_power_at
from support.writer_machines import rows as fleet_rows

import hoodoo
from hoodoo.api import Table
from hoodoo.concurrency.conflict import Kind, Mine, Other, Touch
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import EarlyConflict, StorageError, WriteConflict
from hoodoo.inspect.conflicts import InProgressReport, report_conflicts
from hoodoo.inspect.losers import Clash, Contender, Outcome, Rules
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.storage.traced import TracedStorage

SCHEMA = pa.schema([("id", pa.string()), ("event_date", pa.string()), ("v", pa.int64())])
MANUAL: dict[str, object] = {
    "hoodie.table.services.enabled": "false",
    "hoodie.parquet.small.file.limit": 0,
}
EARLY = "hoodie.write.concurrency.early.conflict.detection"
BLIND = {**MANUAL, f"{EARLY}.enable": False}
"""A writer that looks for others only when it commits."""
LATE = {
    **MANUAL,
    f"{EARLY}.strategy": "simple_direct",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": 600_000,
}
"""A writer that does not look when it begins, but when it announces a file."""
BATCHED = {"hoodie.write.markers.type": "timeline_server_based"}
DIRECT = {"hoodie.write.markers.type": "direct"}
DAY = "2026_01_05"
PARTITION = f"event_date={DAY}"


def rows(day: str = DAY, **values: int) -> pa.Table:
    return pa.table([list(values), [day] * len(values), list(values.values())], schema=SCHEMA)


def make_table(place: Path, table_type: str = "cow", **options: object) -> Path:
    """One file group each for the keys a, b and c."""
    hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="event_date",
        table_type=table_type,
        options=options,
    )
    table = hoodoo.open_table(str(place), MANUAL)
    for key in "abc":
        table.insert(rows(**{key: 1}))
    return place


@pytest.fixture(params=["cow", "mor"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_table(tmp_path / "t", request.param)


def upsert(day: str = DAY, **values: int) -> Callable[[Table], object]:
    return lambda table: table.upsert(rows(day, **values))


def look(place: Path, **options: object) -> list[InProgressReport]:
    return hoodoo.open_table(str(place), options).conflicts()


def group_of(place: Path, key: str) -> str:
    read = hoodoo.open_table(str(place)).to_arrow(filter=f"id = '{key}'")
    (name,) = read["_hoodie_file_name"].to_pylist()
    return f"{PARTITION}/{name.partition('_')[0]}"


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
        assert error.value.others == (older.instant,)
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
        pause_write(place, upsert("2026_01_06", a=2), options=MANUAL),
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
        pause_write(place, upsert("2026_01_06", x=1), options=new) as older,
        pause_write(place, upsert("2026_01_06", y=1), options=new) as younger,
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
    with pause_write(place, upsert(a=3), options={**MANUAL, "hoodie.clean.failed.writes.policy": "NEVER"}):
        (report,) = look(place)
        assert report.clashes == ()


# -- the dead -----------------------------------------------------------------------------------


def test_a_dead_write_is_told_as_dead_and_wins_nothing(place: Path) -> None:
    dead = dead_upsert(place, rows(a=2))
    options = {**MANUAL, "hoodie.clean.failed.writes.policy": "NEVER"}
    with pause_write(place, upsert(a=3), options=options) as living:
        first, second = look(place)
    assert (first.instant, first.status) == (dead, "dead")
    assert first.app == "nightly load"
    assert first.silent_seconds is not None
    assert first.silent_seconds > EXPIRY_S
    assert list(touched(first)) == [group_of(place, "a")]
    assert (second.instant, second.status, second.clashes) == (living.instant, "running", ())


def test_a_dead_write_loses_nothing_either(place: Path) -> None:
    with pause_write(place, upsert(a=2), options=BLIND):
        dead = die_over(place, upsert(a=3), at=f"{paths.HEAD}$|/.temp/")
        make_older(place / paths.heartbeat(dead), EXPIRY_S + 100)
        first, second = look(place)
    assert (first.status, second.status, second.clashes) == ("running", "dead", ())


def test_a_write_that_is_being_rolled_back_wins_nothing(tmp_path: Path) -> None:
    place = make_table(tmp_path / "t")
    dead = dead_upsert(place, rows(a=2))
    rollback = die_over(place, lambda table: table.recover(), at=r"event_date=")
    never = {**MANUAL, "hoodie.clean.failed.writes.policy": "NEVER"}
    (place / paths.heartbeat(dead)).touch()  # as if its writer had woken up
    with pause_write(place, upsert(a=3), options=never):
        first, second = look(place)
    assert (first.instant, first.status) == (dead, "being rolled back")
    assert second.clashes == ()
    assert rollback not in (first.instant, second.instant)


def test_a_decided_write_wins_though_its_writer_died(place: Path) -> None:
    with pause_write(place, upsert(a=3), options=BLIND) as older:
        # The younger one has decided, and died before its commit was visible.
        decided = die_over(
            place, lambda table: Table(table._ref, table._engine).upsert(rows(a=2)), at=r"_\d+\.\w+$"
        ) if False else _decide_and_die(place)
        first, second = look(place, **BLIND)
        assert (second.instant, second.status) == (decided, "committed")
        (clash,) = second.clashes
        assert (clash.outcome, clash.loser) == ("loses", older.instant)
        with pytest.raises(WriteConflict):
            older.go_on()
    assert first.instant == older.instant


def _decide_and_die(place: Path) -> InstantTime:
    def blind(table: Table) -> object:
        return hoodoo.api.Table(table._ref.with_options(BLIND)).upsert(rows(a=2))

    return die_over(place, blind, at=r"/timeline/\d+_\d+\.\w+$")
