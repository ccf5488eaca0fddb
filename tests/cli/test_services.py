"""Commands about table services: what they print, what they do, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import EXPIRY_S, die_over, make_older

import hoodoo
from hoodoo.model import paths
from hoodoo.services.plans.pending import OwnedPlan, own_plan
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("v", pa.int64())])
MANUAL = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
HEAD = f"{paths.HEAD}$"


def rows(*ids: int, city: str = "sf", v: int = 1) -> pa.Table:
    return pa.table({"id": ids, "city": [city] * len(ids), "v": [v] * len(ids)}, SCHEMA)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A merge-on-read table with two file groups with logs, which nobody keeps up."""
    place = tmp_path / "t"
    hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    table = hoodoo.open_table(str(place), MANUAL)
    table.insert(rows(1))
    table.insert(rows(2))
    table.upsert(rows(1, v=2))
    table.upsert(rows(2, v=2))
    return place


def values(place: Path) -> dict[int, int]:
    read = hoodoo.open_table(str(place)).to_arrow(columns=["id", "v"])
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def fails(ran, code: int, *reasons: str) -> None:
    assert (ran.code, ran.out) == (code, "")
    for reason in reasons:
        assert reason in ran.err


# -- plan and run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "action", "files"), [("compact", "compaction", 2), ("cluster", "clustering", 1)]
)
def test_a_service_is_planned_then_run(
    place: Path, hoodoo_cli, command: str, action: str, files: int
) -> None:
    planned = hoodoo_cli(command, place, "--schedule").out
    instant = planned.split()[2]
    assert planned == f"planned {action} {instant} (persistent)\n"
    done = hoodoo_cli(command, place, "--run").out
    assert done.startswith(f"{action} {instant}: {files} files, ")
    assert hoodoo_cli(command, place, "--run").out == f"no {action} is pending\n"
    assert hoodoo_cli(command, place, "--run", instant).out == (
        f"{action} {instant}: someone else has completed it\n"
    )
    assert values(place) == {1: 2, 2: 2}


def test_log_compact_merges_logs(place: Path, hoodoo_cli) -> None:
    threshold = ("-o", "hoodie.log.compaction.blocks.threshold=2")
    assert hoodoo_cli("log-compact", place, *threshold).out == (
        "no logcompaction planned: there is nothing to gain\n"
    )
    hoodoo.open_table(str(place), MANUAL).upsert(rows(1, 2, v=3))
    planned, done = hoodoo_cli("log-compact", place, *threshold, "--removable").out.splitlines()
    assert planned.endswith("(removable)")
    assert ": 2 files, " in done
    assert values(place) == {1: 3, 2: 3}


def test_without_a_flag_a_service_is_planned_and_run(place: Path, hoodoo_cli) -> None:
    found = hoodoo_cli("compact", place, "--json").json
    assert found["result"]["instant"] == found["scheduled"]
    assert found["result"]["stats"]["files"] == 2
    assert hoodoo_cli("compact", place, "--schedule", "--run", "--json").json == {
        "scheduled": None,
        "result": None,
    }


def test_cluster_command_writes_order_and_layout_into_plan(place: Path, hoodoo_cli) -> None:
    hoodoo_cli("cluster", place, "--schedule", "--order-by", "v,id", "--layout", "zorder")
    plan = next((place / ".hoodie/timeline").glob("*.clustering.requested")).read_bytes()
    assert b"v,id" in plan
    assert b"zorder" in plan.lower()
    fails(hoodoo_cli("cluster", place, "--layout", "spiral"), 1, "hoodie.layout.optimize.strategy")


def test_terms_of_a_plan(place: Path, hoodoo_cli) -> None:
    words = ("--cancellable", "--cancel-after-hours", "2", "--cancel-after-instants", "7")
    hoodoo_cli("cluster", place, "--schedule", *words)
    (plan,) = hoodoo_cli("plans", place, "--json").json
    assert plan["policy"] == "cancellable"
    content = next((place / ".hoodie/timeline").glob("*.clustering.requested")).read_bytes()
    assert b"hoodoo.plan.cancel.hours" in content
    both = hoodoo_cli("cluster", place, "--removable", "--cancellable")
    fails(both, 1, "removable or cancellable, not both")
    hours = hoodoo_cli("compact", place, "--cancel-after-hours", "2")
    fails(hours, 1, "cancellation_policy is for cancellable plans")


def test_wrong_usage(place: Path, hoodoo_cli) -> None:
    for words in (
        ("compact", place, "20200101000000000"),
        ("compact", place, "--schedule", "--run", "20200101000000000"),
        ("cluster", place, "--cancel-after-hours", "-1"),
        ("upkeep",),
        ("cancel", place),
        ("upkeep", place, "--every", "0"),
    ):
        assert hoodoo_cli(*words).code == 2


def test_services_that_do_not_fit_the_table(tmp_path: Path, hoodoo_cli) -> None:
    hoodoo.create_table(str(tmp_path / "cow"), schema=SCHEMA, record_key="id")
    reason = "only merge-on-read tables have logs"
    fails(hoodoo_cli("compact", tmp_path / "cow", "--schedule"), 1, reason)
    fails(hoodoo_cli("compact", tmp_path / "none"), 1, "no table at")
    unknown = hoodoo_cli("compact", tmp_path / "cow", "--run", "20200101000000000")
    fails(unknown, 1, "there is no plan 20200101000000000")


def test_a_plan_that_someone_else_runs_is_refused(place: Path, hoodoo_cli) -> None:
    instant = hoodoo_cli("compact", place, "--schedule", "--json").json["scheduled"]
    owned = own_plan(open_ref(str(place)), instant)
    assert isinstance(owned, OwnedPlan)
    refused = hoodoo_cli("compact", place, "--run", instant)
    fails(refused, 1, f"plan {instant} is being executed: ", f"process {os.getpid()}")
    owned.attempt.heartbeat.release()
    assert hoodoo_cli("compact", place, "--run", instant).code == 0


# -- plans and cancel ---------------------------------------------------------------------------


def test_plans_tell_who_runs_them_and_what_they_block(place: Path, hoodoo_cli) -> None:
    assert hoodoo_cli("plans", place).out == "no plan is pending\n"
    instant = hoodoo_cli("cluster", place, "--schedule", "--json").json["scheduled"]
    header, _, line, _, blocks = hoodoo_cli("plans", place).out.splitlines()
    assert header.split()[:3] == ["instant", "action", "policy"]
    assert line.split()[:3] == [instant, "clustering", "persistent"]
    assert line.split()[-4:] == ["waiting", "nobody", "2", "city=sf"]
    assert blocks == (
        f"{instant} blocks updates of its file groups, other plans for them, "
        "archival of later instants"
    )


def test_cancel_asks_for_the_end_of_a_plan(place: Path, hoodoo_cli) -> None:
    words = ("cluster", place, "--schedule", "--cancellable", "--json")
    instant = hoodoo_cli(*words).json["scheduled"]
    assert hoodoo_cli("cancel", place, instant, "--reason", "too large").out == (
        f"requested that {instant} is cancelled\n"
    )
    assert hoodoo_cli("cancel", place, instant).out == (
        f"that {instant} is cancelled was requested already\n"
    )
    assert "  cancel requested: too large\n" in hoodoo_cli("plans", place).out
    done = hoodoo_cli("cancel", place, instant, "--execute").out
    assert done.startswith(f"cancelled clustering {instant} by rollback ")
    assert hoodoo_cli("cancel", place, instant, "--execute").out == (
        f"{instant} was cancelled already\n"
    )
    (aborted,) = (
        each for each in hoodoo_cli("timeline", place, "--json").json if each["state"] == "aborted"
    )
    assert (aborted["requested_time"], aborted["cancelled"]) == (instant, "too large")
    assert "too large" in hoodoo_cli("timeline", place).out


def test_a_plan_whose_end_was_requested_is_not_run(place: Path, hoodoo_cli) -> None:
    words = ("cluster", place, "--schedule", "--cancellable", "--json")
    instant = hoodoo_cli(*words).json["scheduled"]
    hoodoo_cli("cancel", place, instant)
    fails(hoodoo_cli("cluster", place, "--run"), 1, f"plan {instant} was cancelled")
    assert values(place) == {1: 2, 2: 2}


def test_cancel_refuses_what_was_not_scheduled_so(place: Path, hoodoo_cli) -> None:
    instant = hoodoo_cli("compact", place, "--schedule", "--json").json["scheduled"]
    refused = hoodoo_cli("cancel", place, instant)
    fails(refused, 1, f"plan {instant} is persistent: it was not scheduled as cancellable")
    assert hoodoo_cli("cancel", place, instant, "--force", "--execute").code == 0
    assert hoodoo_cli("plans", place, "--json").json == []
    commit = hoodoo_cli("timeline", place, "--json").json[0]["requested_time"]
    fails(hoodoo_cli("cancel", place, commit), 1, "is completed")
    fails(hoodoo_cli("cancel", place, "20200101000000000"), 1, "there is no pending plan")


# -- upkeep -------------------------------------------------------------------------------------


def test_upkeep_runs_what_is_due_in_each_table(place: Path, tmp_path: Path, hoodoo_cli) -> None:
    other = tmp_path / "other"
    hoodoo.create_table(str(other), schema=SCHEMA, record_key="id")
    hoodoo.open_table(str(place), MANUAL).upsert(rows(1, v=3))
    first, second = hoodoo_cli("upkeep", place, other).out.splitlines()
    assert first.startswith(f"{place}: compaction ")
    assert ": 2 files written (" in first
    assert second == f"{other}: nothing is due"
    assert hoodoo_cli("upkeep", place).out == f"{place}: nothing is due\n"
    assert values(place) == {1: 3, 2: 2}


def test_upkeep_prints_one_object_a_line(place: Path, hoodoo_cli) -> None:
    instant = hoodoo_cli("compact", place, "--schedule", "--json").json["scheduled"]
    (line,) = hoodoo_cli("upkeep", place, "--json").out.splitlines()
    found = json.loads(line)
    assert (found["service"], found["outcome"]) == ("compaction", "done")
    assert (found["table"], found["instant"]) == (str(place), instant)


def test_upkeep_goes_on_after_a_failure_and_tells_of_it(place: Path, hoodoo_cli) -> None:
    hoodoo_cli("compact", place, "--schedule")
    (log, *_) = place.rglob("*.log.*")
    log.rename(log.with_name("hidden"))
    ran = hoodoo_cli("upkeep", place)
    assert ran.code == 1
    assert "compaction failed: " in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_upkeep_that_watches_ends_cleanly(place: Path, number: int) -> None:
    code = "from hoodoo.cli.main import run; run()"
    words = ["upkeep", str(place), "--watch", "--every", "0.1"]
    watcher = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells have jobs in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert watcher.stdout is not None
    assert watcher.stdout.readline() == f"{place}: nothing is due\n"
    hoodoo.open_table(str(place), MANUAL).upsert(rows(1, v=9))
    while "compaction" not in (line := watcher.stdout.readline()):
        # A heartbeat of the write may be seen, and swept, just when the write is over.
        assert line == f"{place}: nothing is due\n" or ": recover: 0 rolled back" in line
    os.kill(watcher.pid, number)
    out, err = watcher.communicate(timeout=60)
    assert out.splitlines()[-1] == "stopped"
    assert (watcher.returncode, err) == (0, "")
    assert not list((place / paths.HEARTBEATS).glob("*"))
    assert values(place) == {1: 9, 2: 2}


# -- doctor -------------------------------------------------------------------------------------


def test_doctor_of_a_healthy_table(place: Path, hoodoo_cli) -> None:
    assert hoodoo_cli("doctor", place).out == f"{place} is well\n"
    assert hoodoo_cli("doctor", place, "--json").json == {"findings": [], "repairs": None}


def test_doctor_tells_what_is_wrong_and_repairs_it(place: Path, hoodoo_cli) -> None:
    write = die_over(place, lambda table: table.upsert(rows(1, v=7)), at=HEAD)
    make_older(place / paths.heartbeat(write), EXPIRY_S + 100)
    plan = hoodoo_cli("cluster", place, "--schedule", "--cancellable", "--json").json["scheduled"]
    assert plan is not None
    hoodoo_cli("cancel", place, plan)
    lines = hoodoo_cli("doctor", place).out.splitlines()
    assert lines[0] == f"deltacommit {write} is a dead write"
    assert lines[1].startswith("  why: dead: nightly load on node7, process 4711")
    assert lines[2] == f"  repair: hoodoo recover {place}"
    assert lines[3:] == [
        f"clustering {plan} is to be cancelled",
        "  why: by hand",
        f"  repair: hoodoo cancel {place} {plan} --execute",
    ]
    found = hoodoo_cli("doctor", place, "--fix", "--json").json
    assert found["findings"] == []
    assert len(found["repairs"]) == 2
    assert hoodoo_cli("doctor", place).out == f"{place} is well\n"
    assert values(place) == {1: 2, 2: 2}
