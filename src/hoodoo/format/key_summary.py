"""What the footer of a base file says of its record keys, gathered while rows come.

hoodie_min_record_key           smallest and largest record key, as text
hoodie_max_record_key
org.apache.hudi.bloomfilter     base64 of the filter, see `bloom`
hoodie_bloom_filter_type_code   DYNAMIC_V0
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.bloom import FilterBuilder

MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
BLOOM = "org.apache.hudi.bloomfilter"
BLOOM_TYPE = "hoodie_bloom_filter_type_code"

_FEWEST_BLOOM_ENTRIES = 1_000
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


class KeySummary:
    """Bounds and bloom filter of keys that come in batches.

    A filter that takes more keys than it is made for is better, and cheaper, with few hashes of
    each key: with as many as Apache Hudi makes, at ten times the keys nearly all bits are set. So
    keys are held until it is known on which side they are.
    """

    def __init__(self, bloom: BloomOptions | None) -> None:
        self._bloom = bloom
        self._count = 0
        self._has_nulls = False
        self._bounds: tuple[str, str] | None = None
        self._held: list[pa.ChunkedArray] = []
        self._crowded: FilterBuilder | None = None

    def add(self, keys: pa.ChunkedArray) -> None:
        """Take note of keys."""
        self._has_nulls = self._has_nulls or bool(keys.null_count)
        if self._has_nulls or not len(keys):
            return
        self._count += len(keys)
        low, high = key_bounds(keys)
        if self._bounds is not None:
            low, high = key_bounds(pa.chunked_array([[low, high, *self._bounds]]))
        self._bounds = low, high
        if self._bloom is None:
            return
        self._held.append(keys)
        if self._count > self._bloom.capacity:
            if self._crowded is None:
                self._crowded = self._builder(self._bloom, crowding=_CROWDING)
            self._put_held(self._crowded)

    def key_values(self) -> dict[str, str]:
        """The footer's key-values; none for a file without keys that one could look for."""
        if self._has_nulls:
            return {}
        values = {}
        if self._bounds is not None:
            values[MIN_KEY], values[MAX_KEY] = self._bounds
        if self._bloom is not None:
            builder = self._crowded or self._builder(self._bloom)
            self._put_held(builder)
            built = builder.build()
            values[BLOOM], values[BLOOM_TYPE] = built.encode(), built.type.value
        return values

    def _builder(self, bloom: BloomOptions, *, crowding: int = 1) -> FilterBuilder:
        # A filter sized for more keys than there are is only a larger footer.
        entries = min(bloom.entries, max(self._count, _FEWEST_BLOOM_ENTRIES))
        return FilterBuilder(
            entries=entries,
            false_positive_rate=bloom.fpp,
            max_entries=max(entries, bloom.max_entries),
            crowding=crowding,
        )

    def _put_held(self, builder: FilterBuilder) -> None:
        for keys in self._held:
            builder.add(keys)
        self._held.clear()


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
