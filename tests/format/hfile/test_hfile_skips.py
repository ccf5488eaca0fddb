"""Look-ups that pass over parts of blocks, against those that walk over every entry."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hfile_samples import open_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo.errors import FormatError
from hoodoo.format.hfile import Entries, HFileCodec, write_hfile

BINARY = pa.large_binary()
_ALIKE = st.integers(0, 4000).map(lambda number: b"%032x" % (number * 2**107))
_VARIED = st.text(max_size=12).map(str.encode)


def pairs(entries: Entries) -> list[tuple[bytes, bytes]]:
    return list(zip(entries.keys.to_pylist(), entries.values.to_pylist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 1500),
    repeats=st.sampled_from([1, 1, 1, 2, 60]),
    varied=st.lists(_VARIED, max_size=20),
    asked=st.lists(st.one_of(_ALIKE, _VARIED), max_size=8),
    block_size=st.sampled_from([1 << 10, 1 << 14, 1 << 20]),
    codec=st.sampled_from(HFileCodec),
)
def test_a_look_up_that_skips_finds_what_one_that_does_not_finds(
    count: int,
    repeats: int,
    varied: list[bytes],
    asked: list[bytes],
    block_size: int,
    codec: HFileCodec,
) -> None:
    keys = [b"%032x" % (number * 2**107) for number in range(0, 2 * count, 2)]
    keys = sorted([*keys, *keys[count // 2 : count // 2 + 1] * repeats, *varied])
    values = [b"%d" % number * 9 for number in range(len(keys))]
    data = write_hfile(
        pa.array(keys, BINARY), pa.array(values, BINARY), codec=codec, block_size=block_size
    )
    reader = open_bytes(data)
    wanted = pa.array([*asked, *keys[count // 2 : count // 2 + 2], *varied[:3]], BINARY)
    assert pairs(reader.find(wanted, skips=True)) == pairs(reader.find(wanted))


def test_few_keys_are_found_without_a_walk_over_all_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [b"%032x" % (number * 2**107) for number in range(4000)]
    values = [b"v%06d" % number for number in range(4000)]
    reader = open_bytes(write_hfile(pa.array(keys, BINARY), pa.array(values, BINARY)))

    def refuse(*_: object) -> None:
        raise AssertionError("all entries were walked over")

    monkeypatch.setattr("hoodoo.format.hfile.entries._chain", refuse)
    wanted = [0, 1, 777, 2500, 3999]
    found = reader.find(pa.array([keys[number] for number in wanted], BINARY), skips=True)
    assert pairs(found) == [(keys[number], values[number]) for number in wanted]
    with pytest.raises(AssertionError, match="walked over"):
        reader.find(pa.array(keys[:1], BINARY))


def test_entries_that_are_not_sorted_are_refused_where_they_are_read() -> None:
    keys = [b"%032x" % (number * 2**107) for number in range(2000)]
    data = write_hfile(
        pa.array(keys, BINARY), pa.array([b"v"] * 2000, BINARY), codec=HFileCodec.NONE
    )
    low, high = keys[1000], keys[1001]
    swapped = data.replace(low, b"\0" * 32).replace(high, low).replace(b"\0" * 32, high)
    with pytest.raises(FormatError, match="not sorted"):
        open_bytes(swapped).find(pa.array([keys[999], low], BINARY), skips=True)
