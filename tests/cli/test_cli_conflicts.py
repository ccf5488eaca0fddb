"""`hoodoo conflicts`: what it prints while writes are in progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.daily_table import BLIND, MANUAL, PARTITION, group_of, make_table, rows, upsert
from support.dead_writes import dead_upsert
from support.paused_writes import pause_write

import hoodoo

pytestmark = pytest.mark.slow


@pytest.fixture(params=["cow", "mor"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_table(tmp_path / "t", request.param)


def test_nothing_in_progress(place: Path, hoodoo_cli) -> None:
    assert hoodoo_cli("conflicts", place).out == "no write is in progress, and no plan is pending\n"
    assert hoodoo_cli("conflicts", place, "--json").json == []


def test_the_younger_of_two_writes_is_named_as_the_loser(place: Path, hoodoo_cli) -> None:
    with (
        pause_write(place, upsert(a=2), options=BLIND) as older,
        pause_write(place, upsert(a=3), options=BLIND) as younger,
    ):
        ran, found = hoodoo_cli("conflicts", place), hoodoo_cli("conflicts", place, "--json").json
    header, _, first, second, *lines = ran.out.splitlines()
    names = ["instant", "operation", "status", "phase", "age", "file", "groups", "owner"]
    assert header.split() == names
    assert first.split()[:4] == [older.instant, "UPSERT", "running", "begin"]
    assert second.split()[0] == younger.instant
    assert "process" in second
    group = group_of(place, "a")
    assert lines == [
        "",
        f"UPSERT {older.instant} touches",
        f"  {group}",
        "",
        f"UPSERT {younger.instant} touches",
        f"  {group}",
        f"  {younger.instant} will lose to {older.instant}: it writes to",
        f"    {group}",
    ]
    assert max(map(len, ran.out.splitlines())) <= 120
    assert [each["instant"] for each in found] == [older.instant, younger.instant]
    assert found[1]["clashes"] == [
        {
            "older": older.instant,
            "outcome": "loses",
            "loser": younger.instant,
            "overlaps": [{"reason": "it writes to", "file_groups": [group]}],
        }
    ]
    partition, file_id = PARTITION, group.rpartition("/")[2]
    (touched,) = found[0]["file_groups"]
    assert (touched["partition"], touched["file_id"]) == (partition, file_id)


def test_settings_say_who_loses(place: Path, hoodoo_cli) -> None:
    early = "hoodie.write.concurrency.early.conflict.detection.enable"
    with (
        pause_write(place, upsert(a=2), options=BLIND) as older,
        pause_write(place, upsert(a=3), options=BLIND) as younger,
    ):
        ran = hoodoo_cli("conflicts", place, "-o", f"{early}=false")
    told = f"  of {older.instant} and {younger.instant} whichever commits second will lose over\n"
    assert told in ran.out


def test_a_dead_write_is_told_as_dead(place: Path, hoodoo_cli) -> None:
    dead = dead_upsert(place, rows(a=2))
    options = {**MANUAL, "hoodie.clean.failed.writes.policy": "NEVER"}
    with pause_write(place, upsert(a=3), options=options):
        ran = hoodoo_cli("conflicts", place)
    assert ran.out.splitlines()[2].split()[:3] == [dead, "UPSERT", "dead"]
    assert "  it is dead: silent for at least 11m 4" in ran.out
    assert "lose" not in ran.out


def test_a_cancellable_clustering_loses_and_an_append_passes_a_compaction(
    tmp_path: Path, hoodoo_cli
) -> None:
    place = make_table(tmp_path / "t", "mor")
    table = hoodoo.open_table(str(place), MANUAL)
    table.upsert(rows(a=2))
    compaction = table.schedule_compaction()
    clustering = table.schedule_clustering(cancellable=True)
    with pause_write(place, upsert(a=3, b=3), options=MANUAL) as write:
        out = hoodoo_cli("conflicts", place).out
    assert f"{compaction}  compaction  waiting" in out
    assert f"  {clustering} will lose to {write.instant}: it is writing to\n" in out
    assert f"  {compaction} and {write.instant} can both commit; they share\n" in out
    assert "nobody" in out
    assert f"clustering {clustering} (cancellable) touches\n" in out


def test_only_some_file_groups_are_named(place: Path, hoodoo_cli) -> None:
    table = hoodoo.open_table(str(place), MANUAL)
    for key in "def":
        table.insert(rows(**{key: 1}))
    with pause_write(place, upsert(a=2, b=2, c=2, d=2, e=2), options=MANUAL):
        lines = hoodoo_cli("conflicts", place).out.splitlines()
    assert lines[-1] == "  and 2 more"
    assert len(lines) == 9
