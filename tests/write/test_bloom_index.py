"""The bloom index: what footers deny is not read, and the rest is found as by the simple index."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.indexed import INDEX, KINDS, arrow, made, read

import hoodoo
from hoodoo.errors import FormatError
from hoodoo.table.snapshot import take_snapshot


@KINDS
def test_the_bloom_index_spares_files_by_their_footers(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = made(tmp_path / "t", kind, options, None)
    table.insert(arrow([(f"key-{n:06d}", "x", 1, n) for n in range(40_000)]))
    (file,) = (tmp_path / "t").rglob("p=*/*.parquet")
    data = bytearray(file.read_bytes())
    data[1000 : len(data) // 2] = bytes(len(data) // 2 - 1000)  # only the footer is left
    file.write_bytes(data)
    new = arrow([("later", "x", 1, 1)])
    with pytest.raises(FormatError):
        table.upsert(new)
    bloom = hoodoo.open_table(table.uri, {**options, INDEX: "BLOOM"})
    assert bloom.upsert(new).stats.inserted == 1
    with pytest.raises(FormatError):
        bloom.upsert(arrow([("key-000001", "x", 1, 1)]))


def test_the_bloom_index_finds_keys_in_logs_and_forgets_the_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "mor", {INDEX: "BLOOM"}, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    table.upsert(arrow([("a", "x", 6, 2)]))
    table.delete(["a"])
    commits = len(table._ref.load_timeline().commits.instants)
    assert table.delete(["a"]).stats.deleted == 0
    assert len(table._ref.load_timeline().commits.instants) == commits + 1
    table.upsert(arrow([("a", "x", 1, 3)]))
    assert read(table) == [("a", "x", 1, 3), ("b", "x", 5, 1)]
    assert len(take_snapshot(table._ref).slices()) == 1
