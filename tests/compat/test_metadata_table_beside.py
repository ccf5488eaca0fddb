"""Tables with a metadata table that we and Apache Hudi write in turns, and at the same time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.shared_indexed_table import INDEXED, LISTING, Both, with_indexes
from compat.shared_table import AFTER_FIRST, OUR_LOCK, TOGETHER, hold_write, pending, silence
from support.paused_writes import pause_write

import hoodoo
from hoodoo.errors import WriteConflict

CONFLICT = "ConcurrentModificationException"


@pytest.fixture
def both(hudi: Peer, tmp_path: Path, kind: str) -> Both:
    """Two that take turns, with all indexes."""
    return with_indexes(hudi, tmp_path / "trips", kind, INDEXED)


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("creator", ["hoodoo", "hudi"])
def test_writes_in_turns(both: Both, creator: str) -> None:
    both.make(creator)
    both.check_ours(*AFTER_FIRST)
    both.theirs("a sf 2 11", "f rome 1 60")
    both.check_ours("a 2 11", "b 1 20", "c 1 30", "d 1 40", "e 1 50", "f 1 60")
    both.table.upsert(trips("b sf 2 21", "g oslo 1 70"))
    both.table.delete(trips("d la 9 0"))
    both.check("a 2 11", "b 2 21", "c 1 30", "e 1 50", "f 1 60", "g 1 70")
    both.theirs("g oslo 2 71", "h sf 1 80", "d la 10 41")
    both.theirs("f rome 9 0", operation="delete")
    both.table.upsert(trips("h sf 2 81"))
    both.check("a 2 11", "b 2 21", "c 1 30", "d 10 41", "e 1 50", "g 2 71", "h 2 81")
    found = both.hudi.sql("select id from listed where fare > 70 order by id", rows=True)
    assert found is not None
    assert found["id"].to_pylist() == ["g", "h"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writes_in_turns_with_a_listing_alone(hudi: Peer, tmp_path: Path, kind: str) -> None:
    both = with_indexes(hudi, tmp_path / "trips", kind, LISTING)
    both.make("hoodoo")
    both.theirs("a sf 2 11", "f rome 1 60")
    both.table.upsert(trips("b sf 2 21", "g oslo 1 70"))
    both.check("a 2 11", "b 2 21", "c 1 30", "d 1 40", "e 1 50", "f 1 60", "g 1 70")
    both.theirs("g oslo 2 71")
    both.check("a 2 11", "b 2 21", "c 1 30", "d 1 40", "e 1 50", "f 1 60", "g 2 71")


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize("creator", ["hoodoo", "hudi"])
def test_writes_at_the_same_time(hudi: Peer, tmp_path: Path, kind: str, creator: str) -> None:
    """Each is the first to commit in turn, in another file group and in the same one."""
    both = with_indexes(hudi, tmp_path / "trips", kind, INDEXED, TOGETHER, OUR_LOCK)
    both.make(creator)

    def upsert(rows: pa.Table) -> object:
        return both.table.upsert(rows)

    with hold_write(hudi, both.place, trips("a sf 2 11", "k sf 1 1"), both.settings) as theirs:
        upsert(trips("c la 2 31", "l la 1 2"))
        theirs.go_on()
    rows = ["a 2 11", "b 1 20", "c 2 31", "d 1 40", "e 1 50", "k 1 1", "l 1 2"]
    both.check_ours(*rows)

    def ours(table: hoodoo.Table) -> object:
        return table.upsert(trips("a sf 3 12", "m la 1 3"))

    with pause_write(both.place, ours, options=both.options) as held:
        both.theirs("e ny 2 51", "n rome 1 4")
        held.go_on()
    rows = ["a 3 12", "b 1 20", "c 2 31", "d 1 40", "e 2 51", "k 1 1", "l 1 2", "m 1 3", "n 1 4"]
    both.check_ours(*rows)

    with pause_write(both.place, ours, options=both.options) as held:
        both.theirs("b sf 2 22", "o rome 1 5")
        with pytest.raises(WriteConflict):
            held.go_on()
    rows[1] = "b 2 22"
    rows.append("o 1 5")
    no_look = {**both.options, "hoodie.write.concurrency.early.conflict.detection.enable": "false"}
    with hold_write(hudi, both.place, trips("a sf 4 13", "p sf 1 6"), both.settings) as theirs:
        hoodoo.open_table(str(both.place), no_look).upsert(trips("b sf 3 23", "q sf 1 7"))
        with pytest.raises(PeerError, match=CONFLICT):
            theirs.go_on()
    rows[1] = "b 3 23"
    rows.append("q 1 7")
    both.check(*rows)
    silence(both.place, *pending(both.place))
    both.table.recover()
    assert not pending(both.place)
    both.theirs("p ny 2 8")
    both.check(*rows, "p 2 8")
