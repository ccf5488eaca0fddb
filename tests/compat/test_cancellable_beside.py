"""Cancellable plans beside Apache Hudi, which knows no such thing; and what a cancel leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.peer_tables import COMPACT, MOR
from compat.shared_table import (
    ALONE,
    NO_SMALL_FILES,
    TOGETHER,
    call_service,
    check,
    new_table,
    settle,
    states,
)

import hoodoo
from hoodoo.errors import AlreadyCommitted, NotCancellable
from hoodoo.model import paths

OURS = {"hoodie.compact.inline": "false", **NO_SMALL_FILES}
THEIRS = ALONE | MOR | NO_SMALL_FILES
SERVICES = ["compaction", "clustering"]
ROWS = ("a 2 11", "b 1 20", "c 1 30")


def ours(place: Path) -> hoodoo.Table:
    return hoodoo.open_table(str(place), OURS)


def plan(place: Path, service: str) -> str:
    """A new table, and a cancellable plan of ours over all of it."""
    table = new_table(place, "mor", OURS)
    table.insert(trips("a sf 1 10", "c la 1 30"))
    table.insert(trips("b sf 1 20"))
    table.upsert(trips("a sf 2 11"))
    schedule = {"compaction": table.schedule_compaction, "clustering": table.schedule_clustering}
    instant = schedule[service](cancellable=True)
    assert instant is not None
    return instant


def execute(hudi: Peer, place: Path, service: str, instant: str) -> None:
    call_service(hudi, f"run_{service}", place, op="execute", instants=instant)


def is_completed(place: Path, instant: str) -> bool:
    found = ours(place)._ref.load_timeline().find(instant)
    return found is not None and found.is_completed


@pytest.mark.parametrize("service", SERVICES)
def test_hudi_executes_a_cancellable_plan_as_any_other(
    hudi: Peer, tmp_path: Path, service: str
) -> None:
    instant = plan(tmp_path, service)
    execute(hudi, tmp_path, service, instant)
    assert is_completed(tmp_path, instant)
    check(hudi, tmp_path, *ROWS)
    with pytest.raises(AlreadyCommitted):
        ours(tmp_path).request_cancel(instant)
    ours(tmp_path).upsert(trips("a sf 3 12"))
    check(hudi, tmp_path, "a 3 12", *ROWS[1:])


@pytest.mark.parametrize("service", SERVICES)
def test_hudi_executes_even_a_plan_whose_cancel_is_requested(
    hudi: Peer, tmp_path: Path, service: str
) -> None:
    instant = plan(tmp_path, service)
    assert ours(tmp_path).request_cancel(instant)
    execute(hudi, tmp_path, service, instant)
    assert is_completed(tmp_path, instant)
    check(hudi, tmp_path, *ROWS)
    with pytest.raises(AlreadyCommitted):
        ours(tmp_path).execute_cancel(instant)
    settle(tmp_path)
    assert not (tmp_path / paths.cancel_path(instant)).exists()
    assert is_completed(tmp_path, instant)
    check(hudi, tmp_path, *ROWS)


def test_hudi_refuses_to_write_where_a_clustering_is_planned_until_it_is_cancelled(
    hudi: Peer, tmp_path: Path
) -> None:
    instant = plan(tmp_path, "clustering")
    with pytest.raises(PeerError, match="clustering"):
        hudi.write(tmp_path, trips("a sf 3 12"), THEIRS)
    ours(tmp_path).request_cancel(instant)
    with pytest.raises(PeerError, match="clustering"):
        hudi.write(tmp_path, trips("a sf 3 12"), THEIRS)
    assert ours(tmp_path).execute_cancel(instant) is not None
    hudi.write(tmp_path, trips("a sf 3 12"), THEIRS)
    check(hudi, tmp_path, "a 3 12", *ROWS[1:])


def test_a_write_of_ours_takes_a_clustering_off_the_timeline_before_hudi_can_execute_it(
    hudi: Peer, tmp_path: Path
) -> None:
    instant = plan(tmp_path, "clustering")
    ours(tmp_path).upsert(trips("a sf 3 12"))
    assert "clustering aborted" in states(tmp_path)
    with pytest.raises(PeerError):
        execute(hudi, tmp_path, "clustering", instant)
    check(hudi, tmp_path, "a 3 12", *ROWS[1:])


@pytest.mark.parametrize("options", [{}, TOGETHER], ids=["alone", "together"])
def test_hudi_executing_a_cancelled_clustering_loses_our_write(
    hudi: Peer, tmp_path: Path, options: Mapping[str, str]
) -> None:
    """A limit (docs/services.md): only hoodoo may execute cancellable plans."""
    instant = plan(tmp_path, "clustering")
    table = hoodoo.open_table(str(tmp_path), OURS | {"hoodie.table.services.enabled": "false"})
    table.upsert(trips("a sf 3 12"))
    assert "clustering requested" in states(tmp_path)
    check(hudi, tmp_path, "a 3 12", *ROWS[1:])
    call_service(hudi, "run_clustering", tmp_path, options, op="execute", instants=instant)
    check(hudi, tmp_path, *ROWS)


@pytest.mark.parametrize("service", SERVICES)
def test_hudi_goes_on_after_a_cancel(hudi: Peer, tmp_path: Path, service: str) -> None:
    instant = plan(tmp_path, service)
    ours(tmp_path).request_cancel(instant)
    assert ours(tmp_path).execute_cancel(instant) is not None
    tombstone = tmp_path / f".hoodie/timeline/{instant}.{service}.aborted"
    assert tombstone.exists()
    check(hudi, tmp_path, *ROWS)
    with pytest.raises(PeerError):
        execute(hudi, tmp_path, service, instant)

    keep = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    }
    for ts in range(10, 15):
        hudi.write(tmp_path, trips(f"a sf {ts} 1"), THEIRS | COMPACT | keep)
        check(hudi, tmp_path, f"a {ts} 1", *ROWS[1:])
    assert list((tmp_path / ".hoodie/timeline/history").glob("*.parquet")), "Hudi archived nothing"
    assert min(i.requested_time for i in ours(tmp_path).timeline()) >= instant
    assert f"{service} aborted" in states(tmp_path)
    with pytest.raises(NotCancellable, match="no pending plan"):
        ours(tmp_path).request_cancel("20200101000000000")
    ours(tmp_path).upsert(trips("b sf 2 21"))
    call_service(hudi, f"run_{service}", tmp_path, COMPACT, op="scheduleAndExecute")
    check(hudi, tmp_path, "a 14 1", "b 2 21", "c 1 30")
