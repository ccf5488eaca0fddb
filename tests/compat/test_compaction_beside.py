"""Compaction beside Apache Hudi: it goes on after ours, and each executes plans of the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.peer_client import READ_OPTIMIZED, Peer
from compat.peer_rows import trips
from compat.peer_tables import COMPACT, MOR
from compat.shared_table import ALONE, call_service, check, new_table, states, texts

import hoodoo
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref

OURS = {"hoodie.compact.inline": "false"}
THEIRS = ALONE | MOR
SCHEDULE = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
BEFORE = ("a 2 11", "c 2 31", "e 1 50")
AFTER = ("a 3 12", "c 2 31", "e 1 50", "g 1 70")


def ours(place: Path) -> hoodoo.Table:
    return hoodoo.open_table(str(place), OURS)


def fill(place: Path, log_format: str = "parquet") -> hoodoo.Table:
    """A table of ours with base files and logs: updates, one of them late, and deletes."""
    table = new_table(place, "mor", OURS | {"hoodie.logfile.data.block.format": log_format})
    table.insert(trips("a sf 1 10", "b sf 1 20", "c la 1 30", "d la 1 40", "e ny 1 50"))
    table.upsert(trips("a sf 2 11", "c la 2 31", "e ny 0 -1"))
    table.delete(trips("b sf 2 0"))
    table.delete(["d"])
    return table


def logs(place: Path) -> int:
    return sum(len(each.logs) for each in take_snapshot(open_ref(str(place))).slices())


def write_on(place: Path) -> None:
    """Rows that come after the plan: one for a file group of it, and a new one."""
    ours(place).upsert(trips("a sf 3 12", "g ny 1 70"))


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_hudi_goes_on_after_our_compaction(hudi: Peer, tmp_path: Path, log_format: str) -> None:
    last = [i.requested_time for i in fill(tmp_path, log_format).timeline()][-1]
    table = ours(tmp_path)
    instant = table.schedule_compaction()
    assert instant is not None
    check(hudi, tmp_path, *BEFORE)
    write_on(tmp_path)
    check(hudi, tmp_path, *AFTER)
    assert table.run_compaction(instant) is not None
    check(hudi, tmp_path, *AFTER)
    compacted = hudi.read(tmp_path, READ_OPTIMIZED)
    # The logs of the plan are in it, and no later one; the new row is in a new file group.
    assert texts(compacted.to_pylist()) == [*BEFORE, "g 1 70"]
    for time in (last, instant):
        assert texts(hudi.as_of(tmp_path, time).to_pylist()) == list(BEFORE)
    since = ours(tmp_path).timeline()[0].completion_time
    assert since is not None
    changed = texts(hudi.changes(tmp_path, since).to_pylist())
    assert changed == texts(table.changes(since=since).to_pylist())
    assert changed == ["a 3 12", "c 2 31", "g 1 70"]

    hudi.write(tmp_path, trips("c la 4 33", "h sf 1 80"), THEIRS)
    check(hudi, tmp_path, "a 3 12", "c 4 33", "e 1 50", "g 1 70", "h 1 80")
    hudi.write(tmp_path, trips("e ny 5 55"), THEIRS | COMPACT)
    rows = ["a 3 12", "c 4 33", "e 5 55", "g 1 70", "h 1 80"]
    check(hudi, tmp_path, *rows)
    assert states(tmp_path).count("commit completed") == 2
    assert logs(tmp_path) == 0
    ours(tmp_path).upsert(trips("a sf 6 16"))
    check(hudi, tmp_path, "a 6 16", *rows[1:])


@pytest.mark.parametrize("by", ["procedure", "writer"])
def test_hudi_executes_our_plan(hudi: Peer, tmp_path: Path, by: str) -> None:
    fill(tmp_path)
    instant = ours(tmp_path).schedule_compaction()
    assert instant is not None
    write_on(tmp_path)
    if by == "procedure":
        call_service(hudi, "run_compaction", tmp_path, op="execute", instants=instant)
        rows = AFTER
    else:
        hudi.write(tmp_path, trips("g ny 2 71"), THEIRS | COMPACT)
        rows = (*AFTER[:-1], "g 2 71")
    done = ours(tmp_path)._ref.load_timeline().find(instant)
    assert done is not None
    assert done.is_completed
    check(hudi, tmp_path, *rows)
    ours(tmp_path).upsert(trips("e ny 2 51"))
    check(hudi, tmp_path, *rows[:2], "e 2 51", *rows[3:])


@pytest.mark.parametrize("by", ["procedure", "writer"])
def test_we_execute_a_plan_of_hudi(hudi: Peer, tmp_path: Path, by: str) -> None:
    fill(tmp_path)
    if by == "procedure":
        call_service(hudi, "run_compaction", tmp_path, SCHEDULE, op="schedule")
        rows = AFTER
    else:
        hudi.write(tmp_path, trips("e ny 2 51"), THEIRS | SCHEDULE)
        rows = (*AFTER[:2], "e 2 51", AFTER[3])
    assert states(tmp_path)[-1] == "compaction requested"
    write_on(tmp_path)
    check(hudi, tmp_path, *rows)
    assert ours(tmp_path).run_compaction() is not None
    assert states(tmp_path).count("commit completed") == 1
    check(hudi, tmp_path, *rows)
    hudi.write(tmp_path, trips("c la 4 33"), THEIRS)
    check(hudi, tmp_path, rows[0], "c 4 33", *rows[2:])


def test_we_and_hudi_compact_what_the_other_compacted(hudi: Peer, tmp_path: Path) -> None:
    fill(tmp_path)
    for ts in range(10, 14):
        table = ours(tmp_path)
        table.upsert(trips(f"a sf {ts} 1"))
        table.schedule_compaction()
        assert table.run_compaction() is not None
        hudi.write(tmp_path, trips(f"c la {ts} 2"), THEIRS | COMPACT)
        check(hudi, tmp_path, f"a {ts} 1", f"c {ts} 2", "e 1 50")
    assert states(tmp_path).count("commit completed") == 8
