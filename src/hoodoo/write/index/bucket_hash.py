"""Bucket numbers of whole columns of record keys, the same that Apache Hudi computes.

A key made of several fields, `a:1,b:2`, is taken apart again, and the values of the hashed fields
are hashed as a Java list of texts; any other key is hashed as a list of one text. Of that 32-bit
number, without its sign, the remainder by the number of buckets is the bucket.

Java's hash of a text is the polynomial of its UTF-16 units at 31, modulo 2 ** 32. As 31 is odd it
has an inverse there, so that one running sum over the units of many texts, each unit times a power
of the inverse, gives the hash of any piece: the difference of the sums at its two ends, times a
power of 31.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodoo.errors import InputError
from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, BucketRule
from hoodoo.rows.arrays import one_array

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

_PRIME = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 2**32))
_POSITIVE = np.uint32(2**31 - 1)

# So many bytes of keys are hashed at a time: their sums stay in the processor's cache.
_BATCH_BYTES = 1 << 18


def bucket_numbers(keys: pa.Array | pa.ChunkedArray, rule: BucketRule) -> npt.NDArray[np.int32]:
    """The bucket of each record key."""
    if keys.null_count:
        raise InputError("a record key is null")
    texts = one_array(keys.cast(pa.large_string()))
    numbers = np.empty(len(texts), np.int32)
    for rows in _batches(texts):
        batch = _Batch(texts[rows])
        hashes = batch.hashes(batch.starts, batch.ends) + _PRIME
        _take_parts(hashes, batch, rule.fields)
        numbers[rows] = (hashes & _POSITIVE) % np.uint32(rule.count)
    return numbers


def _batches(texts: pa.Array) -> Iterator[slice]:
    """Pieces of some bytes each; a row that is larger comes alone."""
    offsets = _offsets(texts)
    start = 0
    while start < len(texts):
        fits = int(np.searchsorted(offsets, offsets[start] + _BATCH_BYTES, side="right")) - 1
        yield slice(start, max(fits, start + 1))
        start = max(fits, start + 1)


def _offsets(texts: pa.Array) -> Numbers:
    if not len(texts):
        return np.zeros(1, np.int64)
    every = np.frombuffer(texts.buffers()[1], np.int64)
    return every[texts.offset : texts.offset + len(texts) + 1]


def _take_parts(hashes: Hashes, batch: _Batch, fields: tuple[str, ...]) -> None:
    """Where keys have parts with these names, put in the hash of the list of those parts.

    Only a key that has both a comma and a colon is taken apart. A name ends at its colon. A value
    ends at the last comma before the next colon that has a comma before it, as values may hold
    both; the last value ends with the key.
    """
    if not (batch.has(",") and batch.has(":")):
        return
    colons, commas = batch.places_of(":"), batch.places_of(",")
    at, limit = batch.starts, batch.ends
    rows = np.flatnonzero((_first(colons, at) < limit) & (_first(commas, at) < limit))
    at, limit = at[rows], limit[rows]
    lists = np.ones(len(hashes), np.uint32)
    while len(rows):
        colon = _first(colons, at)
        next_colon = _first(colons, _first(commas, colon))
        has_next = next_colon < limit
        end = np.where(has_next, commas[np.searchsorted(commas, next_colon) - 1], limit)
        hit = np.logical_or.reduce([batch.equal(at, colon, field) for field in fields])
        hit_rows = rows[hit]
        lists[hit_rows] = lists[hit_rows] * _PRIME + _value_hashes(batch, colon[hit] + 1, end[hit])
        hashes[hit_rows] = lists[hit_rows]
        rows, at, limit = rows[has_next], end[has_next] + 1, limit[has_next]


def _first(places: Numbers, at: Numbers) -> Numbers:
    """The first of some places that is not before."""
    return places[np.searchsorted(places, at)]


def _value_hashes(batch: _Batch, starts: Numbers, ends: Numbers) -> Hashes:
    """Hashes of values; null has 0, and so has the empty text."""
    hashes = batch.hashes(starts, ends)
    hashes[batch.equal(starts, ends, NULL_KEY) | batch.equal(starts, ends, EMPTY_KEY)] = 0
    return hashes


def _utf16(data: bytes) -> bytes:
    try:
        return data.decode().encode("utf-16-le")
    except UnicodeDecodeError as error:
        raise InputError(f"a key column has text that is not UTF-8 ({error.reason})") from None


class _Batch:
    """Some texts, of which any pieces can be hashed; pieces begin and end at bytes."""

    def __init__(self, texts: pa.Array) -> None:
        offsets = _offsets(texts)
        begin, end = int(offsets[0]), int(offsets[-1])
        self.starts, self.ends = offsets[:-1] - begin, offsets[1:] - begin
        buffer = texts.buffers()[2]
        self._bytes = np.frombuffer(buffer, np.uint8)[begin:end] if end > begin else _NOTHING
        self._unit_at: Numbers | None = None
        units: npt.NDArray[np.uint8 | np.uint16] = self._bytes
        if len(self._bytes) and self._bytes.max() >= 0x80:
            self._unit_at = _units_before(self._bytes)
            units = np.frombuffer(_utf16(self._bytes.tobytes()), np.uint16)
        self._sums = np.zeros(len(units) + 1, np.uint32)
        np.cumsum(units * _powers_of(_INVERSE, len(units)), dtype=np.uint32, out=self._sums[1:])

    def hashes(self, starts: Numbers, ends: Numbers) -> Hashes:
        """Java's hashes of the texts of these pieces."""
        if self._unit_at is not None:
            starts, ends = self._unit_at[starts], self._unit_at[ends]
        powers = _powers_of(_PRIME, len(self._sums))
        # An empty piece has no last unit, and the sum of none: any power will do.
        return (self._sums[ends] - self._sums[starts]) * powers[ends - 1]

    def equal(self, starts: Numbers, ends: Numbers, text: str) -> Flags:
        """Which of these pieces are that text."""
        text_bytes = np.frombuffer(text.encode(), np.uint8)
        same: Flags = ends - starts == len(text_bytes)
        begin = starts[same, np.newaxis]
        same[same] = (self._bytes[begin + np.arange(len(text_bytes))] == text_bytes).all(axis=1)
        return same

    def has(self, character: str) -> bool:
        """Whether an ASCII character stands anywhere; quicker than asking where."""
        return bool((self._bytes == ord(character)).any())

    def places_of(self, character: str) -> Numbers:
        """Where an ASCII character stands, and behind them all a place that is in no text."""
        places = np.flatnonzero(self._bytes == ord(character))
        return np.append(places, len(self._bytes))


_NOTHING = np.zeros(0, np.uint8)


def _units_before(data: npt.NDArray[np.uint8]) -> Numbers:
    """For each byte of UTF-8, and for its end, the number of UTF-16 units before it.

    The first byte of a character stands for one unit, or for two if it begins four bytes.
    """
    units = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    return np.concatenate([[0], np.cumsum(units)])


def _powers_of(number: np.uint32, count: int) -> Hashes:
    """The powers of a number modulo 2 ** 32, from 0 on."""
    return _powers_table(int(number), max(count - 1, 1).bit_length())[:count]


@lru_cache(maxsize=4)
def _powers_table(number: int, bits: int) -> Hashes:
    factors = np.full(1 << bits, number, np.uint32)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint32)
