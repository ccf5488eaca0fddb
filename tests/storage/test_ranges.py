"""Random access over ranged requests: the right bytes, in few requests."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.storage import object_store
from hoodoo.storage.object_store import Range, RangeReader

DATA = bytes(number * 7 % 256 for number in range(1000))


@pytest.fixture(autouse=True, scope="module")
def shrink_limits() -> Iterator[None]:
    """Sizes at which a thousand bytes have all the borders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_store, "_AHEAD_BYTES", 50)
        patch.setattr(object_store, "_PART_BYTES", 120)
        yield


class Object:
    """Bytes that remember which ranges were asked for."""

    def __init__(self, data: bytes, *, tail: int) -> None:
        self.data = data
        self.fetched: list[list[Range]] = []
        self.reader = RangeReader(
            self.fetch, size_bytes=len(data), tail=memoryview(data)[max(0, len(data) - tail) :]
        )

    def fetch(self, ranges: Sequence[Range]) -> Sequence[memoryview]:
        assert all(0 <= start < end <= len(self.data) for start, end in ranges)
        self.fetched.append(list(ranges))
        return [memoryview(self.data)[start:end] for start, end in ranges]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(0, 1100), st.just(0)),
        st.tuples(st.just("seek"), st.integers(-1100, 100), st.sampled_from([1, 2])),
        st.tuples(st.just("read"), st.integers(-1, 1100), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 60), st.just(0)),
    ),
    max_size=12,
)


@given(STEPS, st.integers(0, 1000), st.integers(0, 300))
def test_reads_like_a_file(steps: list[tuple[str, int, int]], size: int, tail: int) -> None:
    data = DATA[:size]
    reader, file = Object(data, tail=tail).reader, io.BytesIO(data)
    assert reader.size() == size
    for step, number, whence in steps:
        if step == "seek":
            if whence and number + (file.tell() if whence == 1 else size) < 0:
                continue
            file.seek(number, whence)
            assert reader.seek(number, whence) == file.tell()
        else:
            at = min(file.tell(), size)
            file.seek(at)  # past the end a file stays where it is, which reads alike
            assert bytes(reader.read(number)) == file.read(number)
            assert reader.tell() == file.tell()


def test_the_tail_needs_no_request() -> None:
    stored = Object(DATA, tail=100)
    stored.reader.seek(-8, 2)
    stored.reader.read(8)
    stored.reader.seek(900)
    assert stored.reader.read() == DATA[900:]
    assert stored.fetched == []


def test_small_reads_fetch_ahead() -> None:
    stored = Object(DATA, tail=100)
    read = b"".join(stored.reader.read(10) for _ in range(10))
    assert read == DATA[:100]
    assert stored.fetched == [[(0, 50)], [(50, 100)]]


def test_large_reads_travel_in_parts() -> None:
    stored = Object(DATA, tail=100)
    assert stored.reader.read(300) == DATA[:300]
    assert stored.fetched == [[(0, 120), (120, 240), (240, 300)]]


def test_a_read_across_the_tail_fetches_only_what_is_missing() -> None:
    stored = Object(DATA, tail=100)
    stored.reader.seek(840)
    assert stored.reader.read(100) == DATA[840:940]
    assert stored.fetched == [[(840, 900)]]
