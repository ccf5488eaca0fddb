"""Apache Hudi and we write one table in turns, by one index: each finds what the other wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from compat.peer_client import Peer
from compat.peer_rows import FIRST, trips
from compat.peer_tables import OPERATION, TYPE
from compat.shared_table import ALONE, check, new_table

import hoodoo
from hoodoo.model.keys import BucketRule, bucket_of
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo.write.index.bucket_hash import bucket_numbers

COUNT = 4
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": f"{COUNT}"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
BLOOM = {"hoodie.index.type": "BLOOM"}
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


class Turns:
    """One table, and both its writers."""

    def __init__(self, hudi: Peer, place: Path, kind: str, index: Mapping[str, str]) -> None:
        self.hudi, self.place, self.kind, self.index = hudi, place, kind, dict(index)

    def ours(self) -> hoodoo.Table:
        return hoodoo.open_table(str(self.place), self.index)

    def theirs(self, operation: str, *lines: str) -> None:
        options = ALONE | self.index | {OPERATION: operation, TYPE: KINDS[self.kind]}
        self.hudi.write(self.place, trips(*lines), options)

    def check(self, *expected: str) -> None:
        check(self.hudi, self.place, *expected)


def assert_in_buckets(place: Path) -> None:
    """Each bucket of a partition is one file group, and has the keys of its number."""
    slices = take_snapshot(open_ref(str(place))).slices()
    places = [(s.group.partition, bucket_of(s.group.file_id)) for s in slices]
    assert len(set(places)) == len(places)
    rows = hoodoo.open_table(str(place)).to_arrow()
    numbers = bucket_numbers(rows["_hoodie_record_key"], BucketRule(COUNT, ("id",)))
    files = rows["_hoodie_file_name"].to_pylist()
    assert [bucket_of(file) for file in files] == numbers.tolist()


@EACH_KIND
@pytest.mark.parametrize("first", ["we", "they"])
def test_buckets_in_turns(hudi: Peer, tmp_path: Path, kind: str, first: str) -> None:
    turns = Turns(hudi, tmp_path / "t", kind, BUCKETS)
    if first == "we":
        new_table(turns.place, kind, BUCKETS).upsert(trips(*FIRST))
    else:
        turns.theirs("upsert", *FIRST)
    turns.theirs("upsert", "a sf 2 11", "f sf 1 60", "g sf 1 70")
    turns.ours().upsert(trips("b sf 2 21", "f sf 2 61", "h sf 1 80", "i ny 1 90"))
    turns.theirs("upsert", "h sf 2 81", "c la 2 31", "j ny 1 1")
    rows = ["a 2 11", "b 2 21", "c 2 31", "d 1 40", "e 1 50"]
    more = ["f 2 61", "g 1 70", "h 2 81", "i 1 90", "j 1 1"]
    turns.check(*rows, *more)
    assert_in_buckets(turns.place)
    turns.ours().insert(trips("k sf 1 1", "l la 1 1"))
    turns.ours().bulk_insert(trips("m sf 1 1"))
    turns.theirs("insert", "n sf 1 1")
    turns.ours().delete(["a", "e"])
    turns.theirs("delete", "b sf 9 9")
    more += ["k 1 1", "l 1 1", "m 1 1", "n 1 1"]
    turns.check("c 2 31", "d 1 40", *more)
    assert_in_buckets(turns.place)


@EACH_KIND
def test_buckets_that_are_overwritten(hudi: Peer, tmp_path: Path, kind: str) -> None:
    turns = Turns(hudi, tmp_path / "t", kind, BUCKETS)
    turns.theirs("upsert", *FIRST)
    turns.ours().insert_overwrite(trips("a sf 1 1", "x sf 1 1"))
    turns.theirs("upsert", "a sf 2 2", "y sf 1 1")
    turns.check("a 2 2", "c 1 30", "d 1 40", "e 1 50", "x 1 1", "y 1 1")
    turns.theirs("insert_overwrite", "a sf 3 3", "z sf 1 1")
    turns.ours().upsert(trips("z sf 2 2", "x sf 1 1"))
    turns.check("a 3 3", "c 1 30", "d 1 40", "e 1 50", "x 1 1", "z 2 2")
    assert_in_buckets(turns.place)


@EACH_KIND
def test_rows_that_move_in_turns(hudi: Peer, tmp_path: Path, kind: str) -> None:
    turns = Turns(hudi, tmp_path / "t", kind, GLOBAL)
    new_table(turns.place, kind, GLOBAL).upsert(trips(*FIRST))
    turns.theirs("upsert", "a la 2 11", "c ny 0 0")  # c is older than what is there
    turns.ours().upsert(trips("a ny 3 12", "b la 0 0", "d sf 2 41"))
    turns.check("a 3 12", "b 1 20", "c 1 30", "d 2 41", "e 1 50")
    turns.theirs("upsert", "a sf 4 13", "d la 3 42")
    turns.ours().upsert(trips("e sf 2 51", "a sf 5 14"))
    turns.check("a 5 14", "b 1 20", "c 1 30", "d 3 42", "e 2 51")
    turns.ours().delete(["a"])
    turns.theirs("delete", "d nowhere 9 9")
    turns.check("b 1 20", "c 1 30", "e 2 51")


@EACH_KIND
def test_bloom_filters_in_turns(hudi: Peer, tmp_path: Path, kind: str) -> None:
    turns = Turns(hudi, tmp_path / "t", kind, BLOOM)
    new_table(turns.place, kind, BLOOM).upsert(trips(*FIRST))
    turns.theirs("upsert", "a sf 2 11", "f sf 1 60")
    turns.ours().upsert(trips("f sf 2 61", "b sf 2 21", "g la 1 70"))
    turns.theirs("upsert", "g la 2 71", "d la 2 41")
    turns.check("a 2 11", "b 2 21", "c 1 30", "d 2 41", "e 1 50", "f 2 61", "g 2 71")
