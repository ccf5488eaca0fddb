"""What the footer of a base file says of its record keys, gathered while rows come.

hoodie_min_record_key           smallest and largest record key, as text
hoodie_max_record_key
org.apache.hudi.bloomfilter     base64 of the filter, see `bloom`
hoodie_bloom_filter_type_code   DYNAMIC_V0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.parquet.bloom_filter import BloomFilter, FilterBuilder

MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
BLOOM = "org.apache.hudi.bloomfilter"
BLOOM_TYPE = "hoodie_bloom_filter_type_code"

_FEWEST_BLOOM_ENTRIES = 1_000
_MANY = 100_000
_CROWDING = 8  # a base file of the usual size has a million keys, a filter has room for 120,000


@dataclass(frozen=True, slots=True)
class BloomOptions:
    """Size of a base file's bloom filter: for how many keys, and how often it may be wrong."""

    entries: int
    fpp: float
    max_entries: int

    @property
    def capacity(self) -> int:
        """Keys up to which the filter grows."""
        return self.entries * max(1, -(-self.max_entries // self.entries))

    def size_bytes(self, keys: int) -> int:
        """About how much of a footer the filter of so many keys takes: six bits in a character."""
        bits_of_a_key = -math.log(self.fpp) / math.log(2) ** 2
        return int(min(keys, self.capacity) * bits_of_a_key / 6)


@dataclass(frozen=True, slots=True)
class CopiedKeySummary:
    """What is told of keys that are those of another file."""

    bounds: tuple[str, str]
    bloom: BloomFilter | None

    def add(self, keys: pa.ChunkedArray) -> None:
        """They are known."""

    @property
    def size_bytes(self) -> int:
        """How large the key-values are."""
        return sum(map(len, self.key_values().values()))

    def key_values(self) -> dict[str, str]:
        """The footer's key-values."""
        return _key_values(self.bounds, self.bloom)


class KeySummary:
    """Bounds and bloom filter of keys that come in batches.

    A filter that takes more keys than it is made for is better, and cheaper, with few hashes of
    each key: with as many as Apache Hudi makes, at ten times the keys nearly all bits are set. So
    keys are held until it is known on which side they are, and until they are worth the effort.
    """

    def __init__(self, bloom: BloomOptions | None) -> None:
        self._bloom = bloom
        self._has_nulls = False
        self._count = 0
        self._held: list[pa.Array] = []
        self._held_count = 0
        self._bounds: tuple[str, ...] = ()
        self._crowded: FilterBuilder | None = None

    def add(self, keys: pa.ChunkedArray) -> None:
        """Take note of keys."""
        self._has_nulls = self._has_nulls or bool(keys.null_count)
        if self._has_nulls:
            return
        self._count += len(keys)
        self._held += keys.chunks
        self._held_count += len(keys)
        if self._held_count <= (self._bloom.capacity if self._bloom else _MANY):
            return
        if self._bloom is not None and self._crowded is None:
            self._crowded = self._builder(self._bloom, crowding=_CROWDING)
        self._take_held(self._crowded)

    @property
    def size_bytes(self) -> int:
        """About how large the key-values are."""
        return self._bloom.size_bytes(self._count) if self._bloom else 0

    def key_values(self) -> dict[str, str]:
        """The footer's key-values; none for a file without keys that one could look for."""
        if self._has_nulls:
            return {}
        builder = self._crowded
        if self._bloom is not None and builder is None:
            builder = self._builder(self._bloom)
        self._take_held(builder)
        return _key_values(self._bounds, builder.build() if builder else None)

    def _builder(self, bloom: BloomOptions, *, crowding: int = 1) -> FilterBuilder:
        # A filter sized for more keys than there are is only a larger footer.
        entries = min(bloom.entries, max(self._held_count, _FEWEST_BLOOM_ENTRIES))
        return FilterBuilder(
            entries=entries,
            false_positive_rate=bloom.fpp,
            max_entries=max(entries, bloom.max_entries),
            crowding=crowding,
        )

    def _take_held(self, builder: FilterBuilder | None) -> None:
        keys = pa.chunked_array(self._held, pa.string())
        if len(keys):
            bounds = key_bounds(keys)
            all_bounds = pa.chunked_array([[*bounds, *self._bounds]])
            self._bounds = key_bounds(all_bounds) if self._bounds else bounds
            if builder is not None:
                builder.add(keys)
        self._held, self._held_count = [], 0


def _key_values(bounds: tuple[str, ...], bloom: BloomFilter | None) -> dict[str, str]:
    values = {}
    if bounds:
        values[MIN_KEY], values[MAX_KEY] = bounds
    if bloom is not None:
        values[BLOOM], values[BLOOM_TYPE] = bloom.encode(), bloom.type.value
    return values


def key_bounds(keys: pa.ChunkedArray) -> tuple[str, str]:
    """The smallest and the largest of some keys, in the order of Java's texts.

    That is the order of UTF-16: characters beyond U+FFFF come before those from U+E000 on, so
    that it differs from the order of UTF-8 (which is Arrow's) where there are such characters.
    """
    if pc.all(pc.string_is_ascii(keys)).as_py() or not _any_beyond_utf16(keys):
        bounds = pc.min_max(keys).as_py()
        return bounds["min"], bounds["max"]
    texts = sorted(keys.to_pylist(), key=lambda text: text.encode("utf-16-be"))
    return texts[0], texts[-1]


def _any_beyond_utf16(keys: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(keys, "[\U00010000-\U0010ffff]")).as_py())
