"""Apache Hudi reads what we log-compacted, executes our plan, and we go on with what it left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from compat.peer_client import Peer
from compat.peer_rows import FIRST, trips
from compat.peer_tables import COMPACT, METADATA
from compat.same_rows import assert_same_rows

import hoodoo

OPTIONS = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline": "false"}
ALONE = {"hoodie.table.name": "trips", METADATA: "false", "hoodie.compact.inline": "false"}


def check(hudi: Peer, table: hoodoo.Table, *expected: str) -> None:
    theirs = hudi.read(table.uri)
    assert_same_rows(table.to_arrow(), theirs)
    found = zip(*(theirs[name].to_pylist() for name in ("id", "ts", "fare")), strict=True)
    assert sorted(f"{key} {ts} {fare:g}" for key, ts, fare in found) == sorted(expected)


def check_past(hudi: Peer, table: hoodoo.Table, instants: list[str]) -> None:
    """As of each instant, and the changes since the first of them."""
    for instant in instants:
        assert_same_rows(table.to_arrow(as_of=instant), hudi.as_of(table.uri, instant))
    since = next(i.completion_time for i in table.timeline() if i.requested_time == instants[0])
    ours, theirs = table.changes(since=since), hudi.changes(table.uri, since)
    assert_same_rows(_by_id(ours), _by_id(theirs))


def _by_id(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["id"], "e")).sort_by("id")


def compact_logs(table: hoodoo.Table) -> str:
    assert table.schedule_log_compaction() is not None
    done = table.run_log_compaction()
    assert done is not None
    assert done.stats.files
    return done.instant


@pytest.mark.parametrize("ordering", ["ts", None])
def test_log_compactions_of_both_read_the_same(
    hudi: Peer, tmp_path: Path, ordering: str | None
) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "trips"),
        schema=trips("a sf 1 1").schema,
        record_key="id",
        partition_by="city",
        ordering=ordering,
        table_type="mor",
        options=OPTIONS,
    )
    instants = [table.insert(trips(*FIRST)).instant]
    instants.append(table.upsert(trips("a sf 2 11", "c la 2 31", "d la 2 41")).instant)
    instants.append(table.delete(trips("b sf 2 0")).instant)
    instants.append(table.delete(["d"]).instant)
    expected = ["a 2 11", "c 2 31", "e 1 50"]
    check(hudi, table, *expected)
    instants.append(compact_logs(table))
    check(hudi, table, *expected)
    instants.append(table.upsert(trips("a sf 3 12")).instant)
    expected[0] = "a 3 12"
    check(hudi, table, *expected)
    check_past(hudi, table, instants)

    assert table.schedule_log_compaction() is not None  # over the one before
    theirs = {**ALONE, **OPTIONS, "hoodie.log.compaction.inline": "true"}
    hudi.write(table.uri, trips("c la 3 32"), theirs)
    table = hoodoo.open_table(table.uri, OPTIONS)
    assert not [i for i in table.timeline() if i.state != "completed"], "Hudi left our plan"
    expected[1] = "c 3 32"
    check(hudi, table, *expected)
    table.upsert(trips("a sf 4 13", "c la 4 33"))
    compact_logs(table)
    expected[:2] = ["a 4 13", "c 4 33"]
    check(hudi, table, *expected)
    check_past(hudi, table, instants)

    hudi.write(table.uri, trips("a sf 5 14"), {**ALONE, **COMPACT})
    table = hoodoo.open_table(table.uri, OPTIONS)
    expected[0] = "a 5 14"
    check(hudi, table, *expected)
