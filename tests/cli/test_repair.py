"""recover and rollback: what was done and why, what was left and why."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import (
    AFTER_DECISION,
    EXPIRY_S,
    dead_upsert,
    die_over,
    make_older,
    upsert_and_die,
)

import hoodoo
from hoodoo.format.timeline.instant_files import encode
from hoodoo.model import paths
from hoodoo.model.commit import InstantInfo
from hoodoo.model.plans import ClusteringPlan, RequestedReplaceMetadata, RollbackPlan
from hoodoo.table.ref import open_ref

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
WHO = "nightly load on node7, process 4711 (upsert, begin)"
DATA_FILE = r"^[^.].*\.parquet$"
PLAN = "20200101000000000"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "city": ["sf"] * len(ids)}, SCHEMA)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    table.insert(rows(1))
    return tmp_path / "t"


def data_files(place: Path) -> set[str]:
    return {path.name for path in place.glob("*.parquet")}


def files_of(place: Path, instant: str) -> list[str]:
    return sorted(name for name in data_files(place) if instant in name)


def actions(place: Path) -> list[tuple[str, str]]:
    return [(i.action.value, i.state.value) for i in open_ref(str(place)).load_timeline()]


def fails(ran, *reasons: str) -> None:
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("hoodoo: ")
    assert len(ran.err.splitlines()) == 1
    for reason in reasons:
        assert reason in ran.err


def test_nothing_to_mend(place: Path, hoodoo_cli) -> None:
    before = data_files(place)
    assert hoodoo_cli("recover", place).out == "nothing to mend\n"
    assert hoodoo_cli("recover", place, "--json").json == {
        "rolled_back": [],
        "left": [],
        "swept": {"data_files": [], "leftovers": []},
    }
    assert data_files(place) == before


def test_a_dead_write_is_rolled_back_and_why(place: Path, hoodoo_cli) -> None:
    before = data_files(place)
    instant = dead_upsert(place, rows(1, 2))
    (file,) = files_of(place, instant)
    first, reason, path = hoodoo_cli("recover", place).out.splitlines()
    assert first.startswith(f"rolled back {instant} (commit) by ")
    assert first.endswith(": 1 data file deleted")
    assert reason.startswith(f"  dead: {WHO}; last heartbeat 70")
    assert reason.endswith(" s ago, dead after 600 s")
    assert path == f"  {file}"
    assert data_files(place) == before
    assert actions(place) == [("commit", "completed"), ("rollback", "completed")]
    assert hoodoo_cli("scan", place, "--json", "--columns", "id").out == '{"id": 1}\n'


def test_recover_prints_json(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    files = files_of(place, instant)
    found = hoodoo_cli("recover", place, "--json").json
    (done,) = found["rolled_back"]
    (rollback,) = (i for i in open_ref(str(place)).load_timeline() if i.action.value == "rollback")
    assert done.pop("reason").startswith(f"dead: {WHO}; last heartbeat 70")
    assert done == {
        "instant": instant,
        "action": "commit",
        "rollback": rollback.requested_time,
        "is_finished": False,
        "is_dropped": False,
        "ending": "remove",
        "files": files,
    }
    assert found["left"] == []


def test_timeline_reports_zero_silence_when_no_file_is_newer(place: Path, hoodoo_cli) -> None:
    upsert_and_die(place, rows(1, 2))
    for path in (place / ".hoodie").rglob("*"):
        make_older(path, EXPIRY_S + 100)
    assert "silent for at least 0s" in hoodoo_cli("timeline", place).out
    assert f"dead: {WHO}; last heartbeat 70" in hoodoo_cli("recover", place).out


def test_live_write_is_left_with_the_reason(place: Path, hoodoo_cli) -> None:
    instant = upsert_and_die(place, rows(1, 2))
    make_older(place / paths.heartbeat(instant), EXPIRY_S - 100)
    first, reason = hoodoo_cli("recover", place).out.splitlines()
    assert first == f"left {instant} (commit, inflight)"
    assert reason.startswith(f"  alive: {WHO}; last heartbeat 50")
    (left,) = hoodoo_cli("recover", place, "--json").json["left"]
    assert left.pop("reason").startswith(f"alive: {WHO}; last heartbeat 50")
    assert left == {"instant": instant, "action": "commit", "state": "inflight"}
    assert files_of(place, instant)


def test_the_options_say_when_a_writer_without_a_body_is_dead(place: Path, hoodoo_cli) -> None:
    instant = upsert_and_die(place, rows(1, 2))
    heartbeat = place / paths.heartbeat(instant)
    heartbeat.write_bytes(b"")  # as Apache Hudi leaves it
    make_older(heartbeat, 30)
    assert hoodoo_cli("recover", place).out.startswith(f"left {instant} ")
    sooner = ("-o", "hoodie.client.heartbeat.interval_in_ms=1000")
    told = hoodoo_cli("recover", place, *sooner).out
    assert told.startswith(f"rolled back {instant} ")
    assert "dead: a writer that does not say who it is; last heartbeat 3" in told


def test_a_commit_that_was_decided_is_finished(place: Path, hoodoo_cli) -> None:
    instant = upsert_and_die(place, rows(1, 2), at=AFTER_DECISION)
    make_older(place / paths.heartbeat(instant), EXPIRY_S + 100)
    assert "rolled back" not in hoodoo_cli("recover", place).out
    assert actions(place) == [("commit", "completed"), ("commit", "completed")]


def test_rollback_of_completed_commit_is_left_pending_until_dropped(
    place: Path, hoodoo_cli
) -> None:
    """As an engine leaves it that died before it took its commit back."""
    commit = hoodoo_cli("timeline", place, "--json").json[0]["requested_time"]
    later = str(int(commit) + 1)
    info = InstantInfo(commit_time=commit, action="commit")
    requested = place / f".hoodie/timeline/{later}.rollback.requested"
    requested.write_bytes(encode(RollbackPlan(instant_to_rollback=info)))
    make_older(requested, EXPIRY_S + 100)
    first, reason = hoodoo_cli("recover", place).out.splitlines()
    assert first == f"left {later} (rollback, requested)"
    assert f"`hoodoo rollback TABLE {later}`" in reason
    assert hoodoo_cli("rollback", place, later).out.startswith(f"dropped rollback {later}: ")
    assert actions(place) == [("commit", "completed")]
    assert hoodoo_cli("recover", place).out == "nothing to mend\n"


def test_a_plan_is_left(place: Path, hoodoo_cli) -> None:
    plan = RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=ClusteringPlan())
    (place / f".hoodie/timeline/{PLAN}.clustering.requested").write_bytes(encode(plan))
    make_older(place / f".hoodie/timeline/{PLAN}.clustering.requested", EXPIRY_S + 100)
    first, reason = hoodoo_cli("recover", place).out.splitlines()
    assert first == f"left {PLAN} (clustering, requested)"
    assert reason == "  a persistent plan of a table service, for its executor"


def test_a_rollback_that_was_cut_off_is_finished(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    rollback = die_over(place, lambda table: table.recover(), at=DATA_FILE)
    *_, first, reason = hoodoo_cli("recover", place).out.splitlines()
    assert first == f"left {rollback} (rollback, inflight)"
    assert reason.startswith("  alive: nightly load on node7, process 4711 (rollback, begin);")
    make_older(place / paths.heartbeat(rollback), EXPIRY_S + 100)
    lines = hoodoo_cli("recover", place).out.splitlines()
    assert lines[0].startswith(f"finished the rollback of {instant} (commit) by {rollback}: ")
    assert lines[1].startswith("  dead: nightly load on node7, process 4711 (rollback, begin); ")
    assert actions(place) == [("commit", "completed"), ("rollback", "completed")]


def test_target_of_finished_rollback_is_not_reported_as_left(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    rollback = die_over(place, lambda table: table.recover(), at=r"/\d+\.commit\.requested$")
    make_older(place / paths.heartbeat(rollback), EXPIRY_S + 100)
    (place / f".hoodie/timeline/{instant}.commit.requested").write_bytes(b"")
    found = hoodoo_cli("recover", place, "--json").json
    assert [done["is_finished"] for done in found["rolled_back"]] == [True]
    assert found["left"] == []
    assert actions(place) == [("commit", "completed"), ("rollback", "completed")]


def test_recover_prints_swept_files(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    (file,) = files_of(place, instant)
    data = (place / file).read_bytes()
    hoodoo_cli("recover", place)
    (place / file).write_bytes(data)  # by a task that outlived its writer
    make_older(place / paths.sweep_note_path(instant), EXPIRY_S + 100)
    assert hoodoo_cli("recover", place).out == f"swept 1 data file, 0 leftovers\n  {file}\n"
    assert not files_of(place, instant)
    make_older(place / paths.sweep_note_path(instant), EXPIRY_S + 100)
    assert hoodoo_cli("recover", place, "--json").json["swept"] == {
        "data_files": [],
        "leftovers": [paths.sweep_note_path(instant)],
    }


def test_many_files_are_cut_short(tmp_path: Path, hoodoo_cli) -> None:
    place = tmp_path / "many"
    hoodoo.create_table(str(place), schema=SCHEMA, record_key="id", partition_by="city")
    cities = [f"c{number:02d}" for number in range(23)]
    instant = dead_upsert(place, pa.table({"id": range(23), "city": cities}, SCHEMA))
    lines = hoodoo_cli("recover", place).out.splitlines()
    assert lines[0].endswith(": 23 data files deleted")
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "  and 3 more; --json lists all"
    assert not list(place.rglob(f"*{instant}.parquet"))


def test_rollback_of_a_dead_write(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    (file,) = files_of(place, instant)
    first, path = hoodoo_cli("rollback", place, instant).out.splitlines()
    assert first.startswith(f"rolled back {instant} (commit) by ")
    assert path == f"  {file}"
    assert not files_of(place, instant)


def test_rollback_as_json(place: Path, hoodoo_cli) -> None:
    instant = dead_upsert(place, rows(1, 2))
    files = files_of(place, instant)
    done = hoodoo_cli("rollback", place, instant, "--json").json
    assert (done["instant"], done["action"], done["files"]) == (instant, "commit", files)


def test_rollback_of_a_live_one_must_be_forced(place: Path, hoodoo_cli) -> None:
    instant = upsert_and_die(place, rows(1, 2))
    fails(hoodoo_cli("rollback", place, instant), f"instant {instant} is not dead: {WHO}")
    assert files_of(place, instant)
    assert hoodoo_cli("rollback", place, instant, "--force").code == 0
    assert not files_of(place, instant)


def test_rollback_of_unknown_or_completed_instants_fails(place: Path, hoodoo_cli) -> None:
    (done,) = open_ref(str(place)).load_timeline()
    before = data_files(place)
    for words in ((), ("--force",)):
        fails(hoodoo_cli("rollback", place, done.requested_time, *words), "is completed")
        fails(hoodoo_cli("rollback", place, PLAN, *words), f"no instant {PLAN}")
    assert data_files(place) == before


@pytest.mark.parametrize("words", [("recover",), ("rollback", PLAN)])
def test_tables_that_cannot_be_written_are_not_touched(words, place: Path, hoodoo_cli) -> None:
    properties = place / ".hoodie/hoodie.properties"
    given = [line for line in properties.read_text().splitlines() if "checksum" not in line]
    properties.write_text(
        "\n".join([*given, "hoodie.table.metadata.partitions=files,expr_index_v", ""])
    )
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    command, *rest = words
    fails(hoodoo_cli(command, place, *rest), "does not write")
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


@pytest.mark.parametrize("words", [("recover",), ("rollback", PLAN)])
def test_no_table_there(words, tmp_path: Path, hoodoo_cli) -> None:
    command, *rest = words
    fails(hoodoo_cli(command, tmp_path / "none", *rest), "no table at")


def test_usage(hoodoo_cli) -> None:
    assert hoodoo_cli("recover").code == 2
    assert hoodoo_cli("rollback", "t").code == 2
