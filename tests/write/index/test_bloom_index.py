"""The bloom index: what footers deny is not read, and the rest is found as by the simple index."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.indexed import FILTERS, INDEX, KINDS, arrow, create, read_both

import hoodoo
from hoodoo.errors import FormatError
from hoodoo.format.parquet.base_file import Footer, read_footer
from hoodoo.format.parquet.key_summary import BLOOM
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.write.files import merge_base_file
from hoodoo.write.index.key_filters import open_filters


@KINDS
def test_the_bloom_index_spares_files_by_their_footers(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = create(tmp_path / "t", kind, options, None)
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


def spoil_base_files(place: Path) -> None:
    """Make base files unreadable, footers too, as large as they were."""
    for file in place.rglob("p=*/*.parquet"):
        file.write_bytes(bytes(file.stat().st_size))


@KINDS
@pytest.mark.parametrize("statistics", ["true", "false"])
def test_no_footer_is_opened_where_the_metadata_table_has_the_filters(
    tmp_path: Path, kind: str, statistics: str
) -> None:
    options = {
        **FILTERS,
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.index.column.stats.enable": statistics,
    }
    table = create(tmp_path / "t", kind, options, "ts")
    for number in range(3):
        table.insert(arrow([(f"key-{n}", "x", 1, n) for n in range(number, 90, 3)]))
    spoil_base_files(tmp_path / "t")
    assert table.upsert(arrow([("key-", "x", 1, 1)])).stats.inserted == 1
    with pytest.raises(FormatError):  # its file has to be read
        table.upsert(arrow([("key-7", "x", 1, 1)]))
    footers = hoodoo.open_table(table.uri, {**options, "hoodie.bloom.index.use.metadata": "false"})
    with pytest.raises(FormatError):
        footers.upsert(arrow([("key-", "x", 1, 1)]))


def test_a_file_without_an_entry_may_have_any_key(tmp_path: Path) -> None:
    options = {INDEX: "BLOOM", "hoodie.parquet.small.file.limit": "0"}
    table = create(tmp_path / "t", "cow", options, "ts")
    table.insert(arrow([("a", "x", 1, 1)]))
    (file,) = (tmp_path / "t").rglob("p=*/*.parquet")
    without = pq.ParquetFile(file)
    known = {k: v for k, v in without.metadata.metadata.items() if k != BLOOM.encode()}
    rows = without.read()
    without.close()
    pq.write_table(rows.replace_schema_metadata(known), file)
    table.insert(arrow([("b", "x", 1, 1)]))
    table = hoodoo.api.Table(add_metadata_partitions(table._ref, LocalEngine(), "bloom_filters"))
    filters = open_filters(take_snapshot(table._ref), by_range=True)
    assert filters is not None
    loaded = filters.load(take_snapshot(table._ref).slices())
    assert sorted(one is None for one in loaded) == [False, True]
    assert table.upsert(arrow([("a", "x", 2, 2), ("b", "x", 2, 2)])).stats.updated == 2
    assert read_both(table) == [("a", "x", 2, 2), ("b", "x", 2, 2)]


def test_the_bloom_index_finds_keys_in_logs_and_forgets_the_deleted(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "mor", {INDEX: "BLOOM"}, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    table.upsert(arrow([("a", "x", 6, 2)]))
    table.delete(["a"])
    commits = len(table._ref.load_timeline().commits.instants)
    assert table.delete(["a"]).stats.deleted == 0
    assert len(table._ref.load_timeline().commits.instants) == commits + 1
    table.upsert(arrow([("a", "x", 1, 3)]))
    assert read_both(table) == [("a", "x", 1, 3), ("b", "x", 5, 1)]
    assert len(take_snapshot(table._ref).slices()) == 1


ROWS = [(f"k{n:04d}", "x", 1, n) for n in range(2_000)]
CHANGES = {
    "updates": [("k0000", "x", 2, 0), ("k1999", "x", 2, 0), ("k0777", "x", 0, 0)],
    "inserts": [("k1", "x", 2, 0), ("a", "x", 2, 0), ("z", "x", 2, 0)],
    "updates and inserts": [("k0000", "x", 2, 0), ("z", "x", 2, 0)],
}


def newest_footer(place: Path) -> tuple[Footer, str, list[str]]:
    """What the newest base file says of its keys, the text of its filter, and its keys."""
    file = max(place.rglob("p=*/*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    metadata = pq.read_metadata(file)
    keys = pq.read_table(file, columns=["_hoodie_record_key"]).column(0).to_pylist()
    return read_footer(metadata), metadata.metadata[BLOOM.encode()].decode(), keys


def assert_tells_keys(footer: Footer, keys: list[str]) -> None:
    assert (footer.min_key, footer.max_key) == (min(keys), max(keys))
    assert footer.bloom is not None
    assert footer.bloom.might_contain(arrow([(k, "", 0, 0) for k in keys])["id"]).all()


@pytest.mark.parametrize("at_once", [700, 1_000_000])
@pytest.mark.parametrize("change", CHANGES)
def test_footers_tell_the_keys_of_merged_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, at_once: int
) -> None:
    monkeypatch.setattr(merge_base_file, "_KEYS_AT_ONCE", at_once)
    table = create(tmp_path / "t", "cow", {"hoodie.parquet.block.size": "8192"}, "ts")
    options = {"hoodie.index.bloom.num_entries": "500"}  # a filter that is made anew is another
    table.insert(arrow(ROWS))
    _, before, _ = newest_footer(tmp_path / "t")
    hoodoo.open_table(table.uri, options).upsert(arrow(CHANGES[change]))
    footer, filter_, keys = newest_footer(tmp_path / "t")
    assert_tells_keys(footer, keys)
    assert (filter_ == before) is (change == "updates")


def test_deleted_keys_leave_the_footer(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "cow", {}, None)
    table.insert(arrow(ROWS))
    gone = ["k0000", "k0003", "k1999"]
    table.delete(gone)
    footer, _, keys = newest_footer(tmp_path / "t")
    assert_tells_keys(footer, keys)
    assert footer.bloom is not None
    assert not footer.bloom.might_contain(arrow([(k, "", 0, 0) for k in gone])["id"]).any()


def test_a_broken_filter_is_not_handed_on(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "cow", {}, "ts")
    table.insert(arrow(ROWS))
    (file,) = (tmp_path / "t").rglob("p=*/*.parquet")
    rows = pq.ParquetFile(file)
    known = {**rows.metadata.metadata, BLOOM.encode(): b"no filter"}
    whole = rows.read()
    rows.close()
    pq.write_table(whole.replace_schema_metadata(known), file)
    table.upsert(arrow(CHANGES["updates"]))
    footer, _, keys = newest_footer(tmp_path / "t")
    assert_tells_keys(footer, keys)
