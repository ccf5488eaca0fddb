"""Files of the metadata table stay as long as a reader who listed them may need them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hostile import new_table, rows

import hoodoo

OFTEN = {"hoodie.metadata.compact.max.delta.commits": "2"}
COMMITS = 8


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.9: a slice of the metadata table is deleted seconds after it was replaced",
)
def test_a_slice_of_the_metadata_table_outlives_a_burst_of_commits(tmp_path: Path) -> None:
    place = tmp_path / "table"
    new_table(place, options=OFTEN)
    table = hoodoo.open_table(str(place), OFTEN)
    for number in range(4):
        table.upsert(rows(1, ts=2 + number))
    files = place / ".hoodie/metadata/files"
    newest = max(files.glob("*.hfile"), key=lambda file: file.name.rpartition("_")[2])
    for number in range(COMMITS):
        table.upsert(rows(1, ts=10 + number))
    assert newest.exists()
