"""A merge of Hudi's writes rows with some of the columns to the log: what becomes of other rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import MOR, OPERATION
from compat.shared_table import ALONE, check, new_table

import hoodoo

SIMPLE = {"hoodie.index.type": "SIMPLE"}


@pytest.fixture
def place(hudi: Peer, tmp_path: Path) -> Iterator[Path]:
    """A table of two rows in a base file, of which the log deletes the first; Hudi's SQL has it."""
    place = tmp_path / "t"
    new_table(place, "mor", SIMPLE).upsert(trips("a sf 10 1", "b sf 10 1"))
    hoodoo.open_table(str(place), SIMPLE).delete(["a"])
    settings = [
        f"set {key}={value}" for key, value in (ALONE | SIMPLE).items() if "table" not in key
    ]
    hudi.sql(*settings, f"create table patched using hudi location '{place}'")
    yield place
    hudi.sql("drop table patched")


def merge_fare(hudi: Peer, key: str, ts: int, fare: float) -> None:
    """Let Hudi write a row without its other columns."""
    hudi.sql(
        f"merge into patched t using (select '{key}' as id, 'sf' as city, {ts}L as ts, "
        f"{fare}D as fare) s on t.id = s.id and t.city = s.city "
        "when matched then update set fare = s.fare, ts = s.ts"
    )


def test_deleted_key_is_read_as_without_partial_rows(hudi: Peer, place: Path) -> None:
    """The late row undoes the delete, and loses against the base row: so Hudi merges logs."""
    hudi.write(place, trips("a sf 5 2"), ALONE | SIMPLE | MOR | {OPERATION: "upsert"})
    check(hudi, place, "a 10 1", "b 10 1")
    merge_fare(hudi, "b", 11, 3)
    check(hudi, place, "a 10 1", "b 11 3")


def test_partial_row_of_a_deleted_key_gets_columns_of_the_base_row(hudi: Peer, place: Path) -> None:
    """SQL has nothing to match here, but Hudi writes the row, and that is what readers find."""
    merge_fare(hudi, "a", 11, 3)
    check(hudi, place, "a 11 3", "b 10 1")
