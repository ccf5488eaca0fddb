"""What crashes leave behind: Apache Hudi undoes our dead writes, and we undo those of Hudi."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import FIRST, trips
from compat.peer_tables import COMPACT, FILES_INDEX, MOR, Maker
from compat.shared_table import (
    AFTER_FIRST,
    ALONE,
    CLEANING,
    DYING,
    NO_SMALL_FILES,
    OUR_LOCK,
    TOGETHER,
    check,
    new_table,
    silence,
    states,
    texts,
    traces,
)
from support.dead_writes import EXPIRY_S, make_older
from support.paused_writes import ANNOUNCED, kill_write, pause_write
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app
from hoodoo.errors import HeartbeatLost
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime

DIRECT, BATCHED = "DIRECT", "TIMELINE_SERVER_BASED"
MARKERS = "hoodie.write.markers.type"


# -- our dead writes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "markers"), [("cow", DIRECT), ("mor", DIRECT), ("cow", BATCHED), ("mor", BATCHED)]
)
def test_hudi_rolls_our_dead_write_back(
    hudi: Peer, tmp_path: Path, kind: str, markers: str
) -> None:
    table, place = new_table(tmp_path, kind), tmp_path
    table.insert(trips(*FIRST))
    rows = trips("a sf 2 99", "q la 1 99", "z rome 1 99")
    dead = kill_write(place, lambda table: table.upsert(rows), options={MARKERS: markers})
    left = traces(place, dead)
    assert len([path for path in left if path.startswith("city=")]) == 3
    check(hudi, place, *AFTER_FIRST)

    hudi.write(place, trips("a sf 2 11", "d la 2 41"), ALONE)
    check(hudi, place, "a 2 11", "b 1 20", "c 1 30", "d 2 41", "e 1 50")
    assert "rollback completed" in states(place)
    # A single writer looks at no heartbeat, and takes none away.
    assert traces(place, dead) == {paths.heartbeat(dead)}
    silence(place, dead)
    assert table.recover().swept.leftovers == (paths.heartbeat(dead),)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_cleaner_of_hudi_goes_by_our_heartbeats(hudi: Peer, tmp_path: Path, kind: str) -> None:
    """One write of ours lives, one is dead, and one seems to be: it goes on after its rollback."""
    new_table(tmp_path, kind).insert(trips(*FIRST))
    place, rome = tmp_path, trips("r rome 1 60")
    with (
        pause_write(
            place, lambda table: table.upsert(trips("a sf 2 11")), options=OUR_LOCK
        ) as alive,
        pause_write(
            place, lambda table: table.upsert(trips("e ny 2 99")), at=ANNOUNCED, options=OUR_LOCK
        ) as slow,
    ):
        dead = kill_write(place, lambda table: table.insert(rome), options=OUR_LOCK)
        stalled = slow.instant
        silence(place, dead, stalled)
        hudi.write(place, trips("c la 2 31"), TOGETHER | CLEANING)
        assert states(place).count("rollback completed") == 2
        assert traces(place, dead) | traces(place, stalled) == set()
        alive.go_on()
        with pytest.raises(HeartbeatLost, match="rolled back"):
            slow.go_on()
    check(hudi, place, "a 2 11", "b 1 20", "c 2 31", "d 1 40", "e 1 50")
    assert traces(place, stalled) == set()


def test_hudi_finishes_our_rollback(hudi: Peer, tmp_path: Path) -> None:
    """We die while we roll back: the plan is there, and some of the files are gone."""
    table, place = new_table(tmp_path, "mor"), tmp_path
    table.insert(trips(*FIRST))
    dead = kill_write(place, lambda table: table.upsert(trips("a sf 2 99", "z rome 1 99")))
    silence(place, dead)
    rollback = kill_write(place, lambda table: table.recover(), at=("delete", "^city=sf/"))
    assert "rollback inflight" in states(place)
    silence(place, rollback)
    hudi.write(place, trips("b sf 2 21"), TOGETHER | CLEANING)
    assert states(place)[1] == "rollback completed"
    check(hudi, place, "a 1 10", "b 2 21", "c 1 30", "d 1 40", "e 1 50")
    assert traces(place, dead) == set()


# -- dead writes of Hudi --------------------------------------------------------------------------


def dies(table: Maker, *lines: str, **options: str) -> str:
    """Hudi writes, and ends before its commit, by itself (see `DYING`); its instant."""
    known = set(table.path.glob(".hoodie/timeline/*.requested"))
    with pytest.raises(PeerError, match="pre-commit validation failed"):
        table.write(trips(*lines), options={**options, **DYING})
    (requested,) = set(table.path.glob(".hoodie/timeline/*.requested")) - known
    return requested.name[:17]


def timeline_by_hudi(hudi: Peer, place: Path) -> dict[str, str]:
    """What each rollback on the timeline is about, as Hudi tells it."""
    shown = hudi.sql(f"call show_timeline(path => '{place}')", rows=True)
    assert shown is not None
    rows = shown.to_pylist()
    assert {row["state"] for row in rows} == {"COMPLETED"}
    return {row["instant_time"]: row["rollback_info"] for row in rows if row["rollback_info"]}


@pytest.mark.parametrize(("kind", "markers"), [("cow", DIRECT), ("mor", BATCHED)])
def test_we_recover_a_dead_write_of_hudi(
    hudi: Peer, tmp_path: Path, kind: str, markers: str
) -> None:
    settings = TOGETHER | {MARKERS: markers} | (MOR if kind == "mor" else {})
    if markers == BATCHED:
        settings |= {"hoodie.embed.timeline.server": "true"}
    theirs = Maker(hudi, tmp_path, settings)
    theirs.write(trips(*FIRST), "insert")
    dead = dies(theirs, "a sf 2 99", "q la 1 99")
    left = traces(tmp_path, dead)
    assert {paths.heartbeat(InstantTime(dead)), f".hoodie/.temp/{dead}"} < left
    assert (tmp_path / f".hoodie/.temp/{dead}/MARKERS0").exists() == (markers == BATCHED)

    table = hoodoo.open_table(str(tmp_path), OUR_LOCK)
    young = table.recover()
    assert not young.rolled_back
    assert [verdict.instant.requested_time for verdict in young.left_pending] == [dead]
    assert traces(tmp_path, dead) == left
    silence(tmp_path, dead)
    (done,) = table.recover().rolled_back
    assert (done.instant, len(done.files)) == (dead, 2)
    assert traces(tmp_path, dead) == {paths.sweep_note_path(done.instant)}
    check(hudi, tmp_path, *AFTER_FIRST)
    assert timeline_by_hudi(hudi, tmp_path) == {done.rollback: f"Rolled back: {dead}"}
    theirs.upsert("a sf 2 11", "f la 1 60")
    check(hudi, tmp_path, "a 2 11", *AFTER_FIRST[1:], "f 1 60")


def test_we_roll_one_dead_write_of_hudi_back(hudi: Peer, tmp_path: Path) -> None:
    """`hoodoo rollback`: Hudi as a single writer has no heartbeat, so its last move counts."""
    theirs = Maker(hudi, tmp_path, MOR)
    theirs.write(trips(*FIRST), "insert")
    dead = dies(theirs, "a sf 2 99", "q la 1 99")
    assert not list(tmp_path.glob(".hoodie/.heartbeat/*"))
    words = ["rollback", str(tmp_path), dead]
    assert "is not dead" in CliRunner().invoke(app, words).stderr
    silence(tmp_path, dead)
    told = CliRunner().invoke(app, words).stdout
    assert f"rolled back {dead} (deltacommit)" in told
    assert "2 data files deleted" in told
    check(hudi, tmp_path, *AFTER_FIRST)
    theirs.upsert("a sf 2 11")
    check(hudi, tmp_path, "a 2 11", *AFTER_FIRST[1:])


def test_we_finish_a_rollback_of_hudi(hudi: Peer, tmp_path: Path) -> None:
    """The table as it was before a rollback of Hudi, with that rollback requested, or begun."""
    place, before = tmp_path / "t", tmp_path / "before"
    theirs = Maker(hudi, place, MOR)
    theirs.write(trips(*FIRST), "insert")
    dead = dies(theirs, "a sf 2 99", "q la 1 99")
    shutil.copytree(place, before)
    theirs.upsert("a sf 2 11")
    (requested,) = place.glob(".hoodie/timeline/*.rollback.requested")
    plan, rollback = requested.read_bytes(), requested.name[:17]
    for is_begun in (False, True):
        shutil.rmtree(place)
        shutil.copytree(before, place)
        requested.write_bytes(plan)
        if is_begun:
            requested.with_suffix(".inflight").touch()
        table = hoodoo.open_table(str(place))
        assert not table.recover().rolled_back
        silence(place, rollback)
        (done,) = table.recover().rolled_back
        assert (done.rollback, done.instant, done.is_finished) == (rollback, dead, True)
        assert traces(place, dead) == {paths.sweep_note_path(done.instant)}
        check(hudi, place, *AFTER_FIRST)
        assert timeline_by_hudi(hudi, place) == {rollback: f"Rolled back: {dead}"}
    theirs.upsert("a sf 2 11")
    check(hudi, place, "a 2 11", *AFTER_FIRST[1:])


# -- afterwards -----------------------------------------------------------------------------------


def our_files(place: Path) -> set[Path]:
    """What we keep beside the table, and Hudi does not know."""
    return set(place.glob(".hoodie/.aux/hoodoo/*/*"))


def test_services_of_hudi_work_after_we_recovered(hudi: Peer, tmp_path: Path) -> None:
    """It compacts, cleans, archives our rollbacks and builds its index, beside our leftovers."""
    table, place = new_table(tmp_path, "mor"), tmp_path
    table.insert(trips(*FIRST))
    for n in range(2):
        dead = kill_write(place, lambda table: table.upsert(trips("a sf 2 99", "z rome 1 99")))
        silence(place, dead)
        (done,) = table.recover().rolled_back
        assert done.instant == dead
        table.upsert(trips(f"a sf {n + 2} {n}", f"n{n} la 1 {n}"))
    kept = our_files(place)
    assert {path.parent for path in kept} == {place / paths.SWEEPS}
    archive = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    }
    services = ALONE | COMPACT | CLEANING | archive | {"hoodie.archive.automatic": "true"}
    hudi.write(place, trips("c la 2 31"), services)
    hudi.write(place, trips("c la 3 32"), services)
    expected = ["a 3 1", "b 1 20", "c 3 32", "d 1 40", "e 1 50", "n0 1 0", "n1 1 1"]
    check(hudi, place, *expected)
    done_by_hudi = states(place)
    assert "clean completed" in done_by_hudi
    assert "commit completed" in done_by_hudi, "it compacted nothing"
    archived = {one.action for one in hoodoo.open_table(str(place)).timeline(include_archived=True)}
    assert "rollback completed" not in done_by_hudi
    assert "rollback" in archived
    assert our_files(place) == kept, "it took some of ours away"

    for _ in range(2):  # notes are kept for two rounds
        for path in our_files(place):
            make_older(path, 3 * EXPIRY_S)
        table.recover()
    assert not our_files(place)
    table.upsert(trips("a sf 9 9"))
    hudi.write(place, trips("c la 4 33"), services | FILES_INDEX)
    check(hudi, place, "a 9 9", "b 1 20", "c 4 33", *expected[3:])
    properties = hoodoo.open_table(str(place)).properties
    assert properties["hoodie.table.metadata.partitions"] == "files"


# -- where Hudi misbehaves ------------------------------------------------------------------------


def test_a_pending_base_file_hides_later_log_files_from_hudi(hudi: Peer, tmp_path: Path) -> None:
    """MOR: they join the slice of a base file that does not count, and are lost with it.

    For good, once Hudi writes that file group anew: it takes for the newest rows what it sees.
    """
    # The dead write looks alive: early detection would give way to it, until it is rolled back.
    blind = {"hoodie.write.concurrency.early.conflict.detection.enable": "false"}
    blind |= {
        "hoodie.metadata.enable": "false"
    }  # with a metadata table, Hudi does not see the file
    table, place = new_table(tmp_path, "mor", blind), tmp_path
    table.insert(trips(*FIRST))
    dead = kill_write(place, lambda table: table.insert(trips("q la 1 99")))
    (base,) = place.glob(f"city=la/*_{dead}.parquet")
    assert len(list(place.glob(f"city=la/{base.name[:36]}*"))) == 2, "not a group that was there"
    table.upsert(trips("c la 2 31"))
    now = ["a 1 10", "b 1 20", "c 2 31", "d 1 40", "e 1 50"]
    assert texts(table.to_arrow().to_pylist()) == now
    assert texts(hudi.read(place).to_pylist()) == list(AFTER_FIRST)

    saved = tmp_path.with_name(f"{tmp_path.name}-saved")
    shutil.copytree(place, saved)
    silence(place, dead)
    table.recover()
    check(hudi, place, *now)  # it is all there again

    hudi.write(saved, trips("n la 1 70"), TOGETHER)
    check(hudi, saved, *AFTER_FIRST, "n 1 70")  # the update of c is lost, to everybody


def test_without_filling_small_files_nothing_is_hidden(hudi: Peer, tmp_path: Path) -> None:
    """The way around it, for both sides."""
    table, place = new_table(tmp_path, "mor", NO_SMALL_FILES), tmp_path
    table.insert(trips(*FIRST))
    kill_write(place, lambda table: table.insert(trips("q la 1 99")), options=NO_SMALL_FILES)
    table.upsert(trips("c la 2 31"))
    hudi.write(place, trips("n la 1 70"), TOGETHER | NO_SMALL_FILES)
    check(hudi, place, "a 1 10", "b 1 20", "c 2 31", "d 1 40", "e 1 50", "n 1 70")
