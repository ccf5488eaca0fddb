"""Keys are found in whatever file of a slice they are, and footers spare reading the others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.built_table import HandMade, at, group

from hoodoo.errors import FormatError
from hoodoo.format.schema import RECORD_KEY
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.scan import build_scan_rule, slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.write.index.slice_keys import KeyRange, find_keys, key_range, search_slice


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "t")


def the_slice(table: HandMade) -> SliceReadTask:
    """The only slice of the table."""
    snapshot = take_snapshot(table.ref)
    (read,) = slice_reads(
        snapshot, build_scan_rule(snapshot, columns=[RECORD_KEY]), snapshot.slices()
    )
    return read


def find(read: SliceReadTask, *keys: str, by_range: bool = True) -> list[str]:
    wanted = pa.array(keys, pa.string())
    answer = find_keys(read, wanted, by_range=by_range).to_pylist()
    assert answer == search_slice(read, wanted, by_range=by_range).present.to_pylist()
    return list(answer)


@pytest.mark.parametrize("bloom", [True, False])
@pytest.mark.parametrize("by_range", [True, False])
def test_keys_in_base_files(table: HandMade, bloom: bool, by_range: bool) -> None:
    table.commit(at(1), at(2), table.base(group(1), at(1), {"b": 1, "d": 1}, bloom=bloom))
    read = the_slice(table)
    assert find(read, "e", "d", "c", "b", "a", by_range=by_range) == ["d", "b"]
    assert find(read, "a", "c", "e", by_range=by_range) == []
    assert find(read, by_range=by_range) == []


def test_keys_in_logs_once_and_outside_the_base_file_s_range(table: HandMade) -> None:
    table.commit(at(1), at(2), table.base(group(1), at(1), {"b": 1, "d": 1}))
    table.commit(at(3), at(4), table.log(group(1), at(3), {"d": 2, "x": 1}))
    table.commit(at(5), at(6), table.log(group(1), at(5), {"x": 2}))
    assert find(the_slice(table), "x", "b", "d", "y") == ["x", "b", "d"]


def test_keys_in_logs_without_a_base_file(table: HandMade) -> None:
    table.commit(at(1), at(2), table.log(group(1), at(1), {"x": 1}))
    assert find(the_slice(table), "w", "x") == ["x"]


def hollow(table: HandMade, *, bloom: bool) -> SliceReadTask:
    """A slice whose base file has nothing left but its footer."""
    rows = {f"key-{n:06d}": n for n in range(0, 40_000, 2)}
    stat = table.base(group(1), at(1), rows, bloom=bloom)
    table.commit(at(1), at(2), stat)
    path = Path(table.ref.uri.removeprefix("file://")) / stat.path
    data = bytearray(path.read_bytes())
    data[1000 : len(data) // 2] = bytes(len(data) // 2 - 1000)
    path.write_bytes(data)
    return the_slice(table)


def test_ranges_spare_the_keys(table: HandMade) -> None:
    read = hollow(table, bloom=False)
    assert find(read, "key-", "key-1", "zebra") == []
    for by_range, key in ((False, "zebra"), (True, "key-000001"), (True, "key-000000")):
        with pytest.raises(FormatError):
            find(read, key, by_range=by_range)


def test_bloom_filters_spare_the_keys(table: HandMade) -> None:
    read = hollow(table, bloom=True)
    assert find(read, "key-000001", "key-000003", "zebra", by_range=False) == []
    with pytest.raises(FormatError):
        find(read, "key-000002")


def test_ranges_that_are_told(table: HandMade) -> None:
    table.commit(at(1), at(2), table.base(group(1), at(1), {"m": 1, "b": 1, "d": 1}))
    assert key_range(the_slice(table)) == KeyRange("b", "m")
    table.commit(at(3), at(4), table.log(group(1), at(3), {"x": 1}))
    assert key_range(the_slice(table)) is None


TEXTS = st.lists(st.sampled_from(["a", "é", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])).map(
    "".join
)


@given(st.lists(TEXTS, min_size=1), st.lists(TEXTS))
def test_no_key_is_ruled_out_that_java_has_between(keys: list[str], others: list[str]) -> None:
    """Keys that are outside are ruled out if no character needs two units."""
    ordered = sorted(keys, key=lambda text: text.encode("utf-16-be"))
    bounds = KeyRange(ordered[0], ordered[-1])
    assert bounds.may_hold(pa.array(keys, pa.string())).all()
    kept = bounds.may_hold(pa.array(others, pa.string())).tolist()
    for other, is_kept in zip(others, kept, strict=True):
        if max([*ordered[0], *ordered[-1], *other], default="") < "\U00010000":
            assert is_kept is (bounds.smallest <= other <= bounds.largest)
