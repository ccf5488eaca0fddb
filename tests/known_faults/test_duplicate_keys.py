"""Two writers of one key in a merge-on-read table: it must not be there twice."""

from __future__ import annotations

import pytest
from support.laboratory import Laboratory, find_repeated_keys, rows, try_to

FIRST_MARKER = ("create", r"/\.temp/")
"""The write has begun, and has planned where its rows go."""


def make_table(index: str) -> Laboratory:
    return Laboratory(
        "mor",
        has_metadata=True,
        options={"hoodie.index.type": index, "hoodie.parquet.small.file.limit": 0},
    )


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.4: the guard of new keys skips rows that go to log files, so a key that was deleted "
    "by a log file comes back in two file groups when its own is compacted in between",
)
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE"])
def test_a_deleted_key_upserted_by_two_beside_a_compaction_is_there_once(index: str) -> None:
    laboratory = make_table(index)
    table = laboratory.open()
    table.insert(rows(("k", "p", 1), ("x", "p", 1)))
    table.delete(where="id = 'k'")

    def compact_and_upsert() -> None:
        other = laboratory.open()
        plan = other.schedule_compaction()
        if plan is not None:
            other.run_compaction(plan)
        other.upsert(rows(("k", "p", 22)))

    writer = laboratory.machine("writer")
    writer.let_others_work_after(*FIRST_MARKER, compact_and_upsert)
    try_to(lambda: writer.table.upsert(rows(("k", "p", 11))))
    writer.check_events()
    assert find_repeated_keys(laboratory.open()) == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.4: with a global index, a key that is dead in two partitions comes back in both",
)
def test_a_key_that_died_in_two_partitions_upserted_into_both_is_there_once() -> None:
    laboratory = make_table("GLOBAL_SIMPLE")
    table = laboratory.open()
    table.insert(rows(("k", "p", 1), ("x", "p", 1), ("y", "q", 1)))
    table.upsert(rows(("k", "q", 2)))
    table.delete(where="id = 'k'")

    def upsert_elsewhere() -> None:
        laboratory.open().upsert(rows(("k", "q", 22)))

    writer = laboratory.machine("writer")
    writer.let_others_work_after(*FIRST_MARKER, upsert_elsewhere)
    try_to(lambda: writer.table.upsert(rows(("k", "p", 11))))
    writer.check_events()
    assert find_repeated_keys(laboratory.open()) == []
