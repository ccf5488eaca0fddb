"""Clustering beside Apache Hudi: it goes on after ours, and each executes plans of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.shared_table import ALONE, NO_SMALL_FILES, call_service, check, new_table, states

import hoodoo
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref

KINDS = ["cow", "mor"]
ROWS = ("a 2 11", "b 1 20", "c 1 30", "e 1 50", "f 1 60")


def fill(place: Path, kind: str) -> hoodoo.Table:
    """A table of ours with several file groups per partition, an update and a delete."""
    table = new_table(place, kind, NO_SMALL_FILES)
    table.insert(trips("a sf 1 10", "c la 1 30", "e ny 1 50"))
    table.insert(trips("b sf 1 20", "d la 1 40"))
    table.insert(trips("f sf 1 60"))
    table.upsert(trips("a sf 2 11"))
    table.delete(["d"])
    return table


def file_groups(place: Path) -> int:
    return len(take_snapshot(open_ref(str(place))).slices())


@pytest.mark.parametrize("kind", KINDS)
def test_hudi_goes_on_after_our_clustering(hudi: Peer, tmp_path: Path, kind: str) -> None:
    fill(tmp_path, kind)
    table = hoodoo.open_table(str(tmp_path))
    assert table.schedule_clustering(order_by=["fare", "ts"], layout="zorder") is not None
    check(hudi, tmp_path, *ROWS)
    assert table.run_clustering() is not None
    assert file_groups(tmp_path) == 3
    check(hudi, tmp_path, *ROWS)
    hudi.write(tmp_path, trips("a sf 3 12", "g la 1 70"), ALONE)
    after = ("a 3 12", *ROWS[1:], "g 1 70")
    check(hudi, tmp_path, *after)
    call_service(hudi, "run_clustering", tmp_path, op="scheduleAndExecute", order="fare")
    check(hudi, tmp_path, *after)
    assert states(tmp_path).count("replacecommit completed") == 2
    hoodoo.open_table(str(tmp_path)).upsert(trips("b sf 2 21"))
    check(hudi, tmp_path, "a 3 12", "b 2 21", *ROWS[2:], "g 1 70")


@pytest.mark.parametrize("order", [{}, {"order_by": ["fare", "ts"], "layout": "hilbert"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_executes_our_plan(
    hudi: Peer, tmp_path: Path, kind: str, order: dict[str, Any]
) -> None:
    fill(tmp_path, kind)
    instant = hoodoo.open_table(str(tmp_path)).schedule_clustering(**order)
    assert instant is not None
    call_service(hudi, "run_clustering", tmp_path, op="execute", instants=instant)
    assert states(tmp_path)[-1] == "replacecommit completed"
    assert file_groups(tmp_path) == 3
    check(hudi, tmp_path, *ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_we_execute_a_plan_of_hudi(hudi: Peer, tmp_path: Path, kind: str) -> None:
    fill(tmp_path, kind)
    call_service(hudi, "run_clustering", tmp_path, op="schedule", order="fare,ts")
    assert states(tmp_path)[-1] == "clustering requested"
    assert hoodoo.open_table(str(tmp_path)).run_clustering() is not None
    assert states(tmp_path)[-1] == "replacecommit completed"
    assert file_groups(tmp_path) == 3
    check(hudi, tmp_path, *ROWS)
    hudi.write(tmp_path, trips("a sf 3 12"), ALONE)
    check(hudi, tmp_path, "a 3 12", *ROWS[1:])
