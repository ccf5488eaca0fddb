"""Clean, archive, savepoint and restore by us and by Apache Hudi on the same tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import MOR
from compat.shared_table import ALONE, NO_SMALL_FILES, check, new_table, settle, states, texts

import hoodoo
from hoodoo.table.history import load_history

KEPT = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
THEIRS = ALONE | KEPT | {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}


def ours(place: Path, **options: object) -> hoodoo.Table:
    return hoodoo.open_table(str(place), {**KEPT, **options})


def call(hudi: Peer, procedure: str) -> None:
    """Call a procedure of Hudi's; it would give the table a metadata table."""
    hudi.sql("set hoodie.metadata.enable=false", f"call {procedure}")
    hudi.sql("reset hoodie.metadata.enable")


def archived(place: Path) -> list[str]:
    ref = ours(place)._ref
    found = load_history(ref.env, ref.properties.timeline_paths)
    return [f"{each.action.value} {each.requested_time}" for each in found]


def active(place: Path) -> int:
    return len(ours(place)._ref.load_timeline().commits)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_we_and_hudi_take_turns_at_cleaning_and_archiving(
    hudi: Peer, tmp_path: Path, kind: str
) -> None:
    place, options = tmp_path, MOR if kind == "mor" else {}
    new_table(place, kind)
    for ts in range(1, 8):
        ours(place).upsert(trips(f"a sf {ts} 1", f"b la {ts} 2"))
    ours(place).delete_partitions(["city=la"])
    ours(place).upsert(trips("c sf 1 3"))
    ours(place).upsert(trips("a sf 9 1"))
    (done,) = ours(place).clean()
    settle(place, KEPT)
    assert len(ours(place).archive().instants) >= 5
    rows = ["a 9 1", "c 1 3"]
    check(hudi, place, *rows)
    kept = ours(place)._ref.load_timeline().commits.instants[-2:]
    assert done.earliest_retained_commit == kept[0].requested_time
    for commit in kept:
        mine = texts(ours(place).to_arrow(as_of=commit.requested_time).to_pylist())
        assert texts(hudi.as_of(place, commit.requested_time).to_pylist()) == mine
    assert texts(hudi.changes(place, kept[0].completion_or_requested_time).to_pylist()) == ["a 9 1"]

    before = archived(place)
    for ts in range(10, 16):
        hudi.write(place, trips(f"a sf {ts} 1", f"d ny {ts} 4"), THEIRS | options)
    rows = ["a 15 1", "c 1 3", "d 15 4"]
    check(hudi, place, *rows)
    theirs = archived(place)
    assert set(before) < set(theirs)
    assert active(place) <= 5
    if kind == "cow":  # there is nothing to clean in a table of logs
        assert states(place).count("clean completed") > 1

    for ts in range(20, 26):
        ours(place).upsert(trips(f"d ny {ts} 4"))
        ours(place).clean()
    settle(place, KEPT)
    assert ours(place).archive().instants
    assert set(theirs) < set(archived(place))
    rows = ["a 15 1", "c 1 3", "d 25 4"]
    check(hudi, place, *rows)
    hudi.write(place, trips("e rome 1 5"), THEIRS | options)
    check(hudi, place, *rows, "e 1 5")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_we_and_hudi_restore_to_savepoints_of_each_other(
    hudi: Peer, tmp_path: Path, kind: str
) -> None:
    place = tmp_path
    options: Mapping[str, str] = ALONE | NO_SMALL_FILES | (MOR if kind == "mor" else {})
    new_table(place, kind)
    ours(place).upsert(trips("a sf 1 1", "b la 1 2"))
    saved = ours(place, **NO_SMALL_FILES).upsert(trips("a sf 2 1")).instant
    ours(place).savepoint(saved, user="me", comment="ours")
    shown = hudi.sql(f"call show_savepoints(path => '{place}')", rows=True)
    assert shown is not None
    assert shown.column("savepoint_time").to_pylist() == [saved]
    hudi.write(place, trips("a sf 3 1", "c ny 3 3"), options)
    call(hudi, f"rollback_to_savepoint(path => '{place}', instant_time => '{saved}')")
    check(hudi, place, "a 2 1", "b 1 2")

    ours(place).delete_savepoint(saved)
    hudi.write(place, trips("b la 4 2"), options)
    theirs = ours(place)._ref.load_timeline().commits.instants[-1].requested_time
    call(hudi, f"create_savepoint(path => '{place}', commit_time => '{theirs}')")
    assert [each.instant for each in ours(place).savepoints()] == [theirs]
    hudi.write(place, trips("a sf 5 1", "c ny 5 3"), options)
    ours(place).upsert(trips("b la 6 2"))
    check(hudi, place, "a 5 1", "b 6 2", "c 5 3")
    settle(place, KEPT)
    compactions = int(kind == "mor")  # the fifth delta commit was followed by one
    assert len(ours(place).restore(theirs).instants) == 2 + compactions
    check(hudi, place, "a 2 1", "b 4 2")
    hudi.write(place, trips("a sf 7 1"), options)
    check(hudi, place, "a 7 1", "b 4 2")
