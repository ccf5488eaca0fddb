"""Reports of the timeline: active, pending, aborted, archived, damaged."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.archives import archive
from support.fixtures import fixture_tables
from support.writer_machines import EXPIRY_S, Fleet, Machine, begin_commit, rows
from support.zones import time_zone

import hoodoo
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.format.timeline import history
from hoodoo.inspect.timeline import InstantReport, report_timeline
from hoodoo.model import paths
from hoodoo.model.instant import Action, InstantTime
from hoodoo.runtime.env import SystemClock, SystemIds
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table with an insert and an upsert."""
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    table.insert(pa.table({"id": [1, 2], "name": ["a", "b"]}, SCHEMA))
    table.upsert(pa.table({"id": [2], "name": ["c"]}, SCHEMA))
    return tmp_path / "t"


def touch(place: Path, name: str, content: bytes = b"") -> Path:
    path = place / ".hoodie/timeline" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def open_place(place: Path) -> TableRef:
    return open_ref(str(place))


def by_time(reports: list[InstantReport]) -> dict[str, InstantReport]:
    return {report.requested_time: report for report in reports}


def test_completed_commits_tell_their_operation(place: Path) -> None:
    first, second = report_timeline(open_place(place))
    assert (first.action, first.state, first.operation) == ("commit", "completed", "INSERT")
    assert second.operation == "UPSERT"
    assert first.requested_time < second.requested_time
    assert first.completion_time is not None
    assert (first.age_seconds, first.silent_seconds, first.is_dead) == (None, None, None)
    assert (first.owner, first.problem) == (str(SystemIds().process()), None)


def test_pending_and_aborted_ones_are_there(place: Path) -> None:
    touch(place, "20200101000000000.clustering.requested")
    touch(place, "20200102000000000.commit.requested")
    touch(place, "20200102000000000.inflight")
    touch(place, "20200103000000000.compaction.requested")
    touch(place, "20200103000000000.compaction.aborted")
    reports = by_time(report_timeline(open_place(place)))
    assert len(reports) == 5
    requested = reports["20200101000000000"]
    assert (requested.action, requested.state) == ("clustering", "requested")
    inflight = reports["20200102000000000"]
    assert (inflight.action, inflight.state, inflight.operation) == ("commit", "inflight", None)
    aborted = reports["20200103000000000"]
    assert (aborted.state, aborted.age_seconds) == ("aborted", None)
    # Requested a day apart, and both ages taken within a moment of each other.
    assert requested.age_seconds is not None
    assert inflight.age_seconds is not None
    assert requested.age_seconds - inflight.age_seconds == pytest.approx(86_400, abs=60)
    now_ms = open_place(place).env.clock.now_ms()
    assert inflight.age_seconds == pytest.approx(now_ms / 1000 - 1_577_923_200, abs=60)


def test_an_inflight_commit_tells_what_it_is_about(place: Path) -> None:
    done = min((place / ".hoodie/timeline").glob("*_*.commit"))
    touch(place, "20200102000000000.commit.requested")
    touch(place, "20200102000000000.inflight", done.read_bytes())
    assert by_time(report_timeline(open_place(place)))["20200102000000000"].operation == "INSERT"


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("LOCAL", 9)])
def test_ages_go_by_the_zone_of_the_table(tmp_path: Path, zone: str, hours: int) -> None:
    option = {"hoodie.table.timeline.timezone": zone}
    hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id", options=option)
    touch(tmp_path / "t", "20200102000000000.clustering.requested")
    other = {"hoodie.table.timeline.timezone": "UTC" if zone == "LOCAL" else "LOCAL"}
    with time_zone("Asia/Tokyo"):
        (report,) = report_timeline(open_ref(str(tmp_path / "t"), other))
    begun = 1_577_923_200 - hours * 3600
    assert report.age_seconds == pytest.approx(SystemClock().now_ms() / 1000 - begun, abs=60)


def test_the_file_tells_the_age_of_an_instant_yet_to_come(place: Path) -> None:
    path = touch(place, "20990101000000000.clustering.requested")
    hour_ago = open_place(place).env.clock.now_ms() / 1000 - 3600
    os.utime(path, (hour_ago, hour_ago))
    age = by_time(report_timeline(open_place(place)))["20990101000000000"].age_seconds
    assert age == pytest.approx(3600, abs=60)


def test_an_odd_time_has_no_age_and_does_no_harm(place: Path) -> None:
    touch(place, "00000000000001.clean.requested")
    touch(place, "123.clean.inflight")
    reports = by_time(report_timeline(open_place(place)))
    assert reports["00000000000001"].state == "requested"
    assert reports["123"].age_seconds is None


def test_last_limits_completed_instants_only(place: Path) -> None:
    touch(place, "20200101000000000.clustering.requested")
    touch(place, "20200102000000000.rollback.requested")
    touch(place, "20200102000000000.rollback.inflight")
    reports = report_timeline(open_place(place), last=1)
    assert [one.state for one in reports] == ["requested", "inflight", "completed"]
    assert [one.operation for one in reports] == [None, None, "UPSERT"]
    assert [one.state for one in report_timeline(open_place(place), last=0)] == [
        "requested",
        "inflight",
    ]
    assert len(report_timeline(open_place(place), last=99)) == 4


def test_a_damaged_commit_is_shown_with_its_problem(place: Path) -> None:
    damaged = max((place / ".hoodie/timeline").glob("*_*.commit"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    first, second = report_timeline(open_place(place))
    assert (first.operation, first.problem) == ("INSERT", None)
    assert second.operation is None
    assert second.problem is not None
    assert damaged.name in second.problem


# -- who is at work ---------------------------------------------------------------------------


def pending(machine: Machine) -> InstantReport:
    """The report of the one pending instant."""
    (one,) = report_timeline(machine.ref, last=0)
    return one


def test_a_pending_one_tells_its_owner_and_phase() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    assert pending(north).owner == "test app on north, process 7 (insert, begin)"
    attempt.heartbeat.phase = "write"
    fleet.world.pass_time(EXPIRY_S)  # it beats meanwhile
    assert pending(north).owner == "test app on north, process 7 (insert, write)"


@pytest.mark.parametrize("store_ms", [0, 3_600_000, -3_600_000])
@pytest.mark.parametrize("wall_ms", [0, 3_600_000, -3_600_000])
def test_silence_is_measured_by_the_store_alone(store_ms: int, wall_ms: int) -> None:
    fleet = Fleet(store_ms=store_ms)
    north, south = fleet.machine("north"), fleet.machine("south", wall_ms=wall_ms)
    begin_commit(north)
    north.clock.is_stopped = True
    fleet.world.pass_time(EXPIRY_S * 0.6)
    begin_commit(south)  # its heartbeat tells what time it is at least
    dead, alive = report_timeline(south.ref)
    assert (dead.silent_seconds, dead.expiry_seconds) == (EXPIRY_S * 0.6, EXPIRY_S)
    assert (dead.is_dead, alive.is_dead, alive.silent_seconds) == (None, None, 0)
    fleet.world.pass_time(EXPIRY_S)  # south goes on beating
    dead, alive = report_timeline(south.ref)
    assert dead.is_dead is True
    assert dead.silent_seconds is not None
    assert EXPIRY_S < dead.silent_seconds <= EXPIRY_S * 1.6
    assert alive.is_dead is None


def test_without_a_sign_of_anyone_else_nothing_is_claimed() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    begin_commit(north)
    fleet.die(north)
    one = pending(south)
    assert (one.silent_seconds, one.is_dead) == (0, None)


def test_a_lock_that_is_taken_is_a_sign_of_time() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    begin_commit(north)
    fleet.die(north)
    with transaction(south.ref, "look"):
        pass
    assert pending(south).is_dead is True


def test_who_beats_while_we_look_is_not_silent() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    begin_commit(north)

    def meanwhile(verb: str, path: str) -> None:
        if verb == "read" and path.startswith(paths.HEARTBEATS):
            fleet.world.pass_time(EXPIRY_S)

    storage = TracedStorage(fleet.store, before=meanwhile)
    (one,) = report_timeline(replace(north.ref, env=replace(north.ref.env, storage=storage)))
    assert one.silent_seconds == 0


def test_writer_without_heartbeat_is_unknown_and_dead_once_silent(place: Path) -> None:
    for name in ("commit.requested", "inflight"):
        touch(place, f"20200102000000000.{name}")
    (one,) = report_timeline(open_place(place), last=0)
    assert (one.owner, one.is_dead) == ("unknown (no heartbeat)", None)
    hour_ago = open_place(place).env.clock.now_ms() / 1000 - 3600
    os.utime(place / ".hoodie/timeline/20200102000000000.inflight", (hour_ago, hour_ago))
    (one,) = report_timeline(open_place(place), last=0)
    assert one.is_dead is True
    assert one.silent_seconds == pytest.approx(3600, abs=60)
    heartbeat = place / paths.heartbeat(InstantTime("20200102000000000"))
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.write_bytes(b"")
    (one,) = report_timeline(open_place(place), last=0)
    assert (one.owner, one.is_dead) == ("unknown (foreign heartbeat)", None)


def test_a_plan_that_waits_has_no_owner(place: Path) -> None:
    touch(place, "20200101000000000.clustering.requested")
    (one,) = report_timeline(open_place(place), last=0)
    assert (one.owner, one.silent_seconds, one.is_dead) == (None, None, None)
    touch(place, "20200101000000000.clustering.inflight")
    (one,) = report_timeline(open_place(place), last=0)
    assert one.owner == "unknown (no heartbeat)"


def test_reports_do_not_write_and_ask_little() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k1=1))
    storage = TracedStorage(fleet.store)
    ref = replace(north.ref, env=replace(north.ref.env, storage=storage))
    report_timeline(ref)
    assert storage.counts() == {"list": 1, "read": 1}
    begin_commit(north)
    storage.clear()
    assert len(report_timeline(ref)) == 2
    assert storage.counts() == {"list": 4, "read": 3}


def archived_instant(time: str, action: Action, metadata: bytes | None) -> history.ArchivedInstant:
    requested, completed = InstantTime(f"{time}000"), InstantTime(f"{time}500")
    return history.ArchivedInstant(
        requested_time=requested, completion_time=completed, action=action, metadata=metadata
    )


def test_archived_ones_are_shown_when_asked_for(place: Path) -> None:
    commit = min((place / ".hoodie/timeline").glob("*_*.commit"))
    twice = InstantTime(commit.name.partition("_")[0])
    archive(
        place,
        archived_instant("20200101000000", Action.COMMIT, commit.read_bytes()),
        archived_instant("20200102000000", Action.CLEAN, b"?"),
        archived_instant("20200103000000", Action.COMMIT, b"?"),
        # Archiving was cut short: still in the active timeline too.
        history.ArchivedInstant(requested_time=twice, completion_time=twice, action=Action.COMMIT),
    )
    assert len(report_timeline(open_place(place))) == 2
    reports = report_timeline(open_place(place), include_archived=True)
    assert [one.is_archived for one in reports] == [True, True, True, False, False]
    assert reports[0].operation == "INSERT"
    assert reports[0].completion_time == "20200101000000500"
    assert (reports[1].action, reports[1].problem) == ("clean", None)
    assert reports[2].problem is not None
    assert len(report_timeline(open_place(place), include_archived=True, last=3)) == 3


def test_the_api_gives_the_same(place: Path) -> None:
    table = hoodoo.open_table(str(place))
    assert table.timeline() == report_timeline(open_place(place))
    assert len(table.timeline(include_archived=True)) == 2


@pytest.mark.parametrize("table", fixture_tables())
def test_tables_of_apache_hudi(table: str, unpack) -> None:
    ref = open_place(unpack(table))
    reports = report_timeline(ref)
    assert len(reports) == len(ref.load_timeline())
    for report in reports:
        assert report.problem is None
        if report.state == "completed" and report.action.endswith("commit"):
            assert report.operation, report
