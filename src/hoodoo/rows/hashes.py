"""A 64-bit hash of each text of a column, on whole columns.

A text is hashed as the polynomial of its bytes at an odd number modulo 2 ** 64, plus its length.
An odd number has an inverse there, so that one running sum over the bytes of all texts, each times
a power of the inverse, gives the polynomial of any of them: the difference of the sums at its two
ends, times a power of the number. What comes out is mixed, so that every bit counts for all.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodoo.errors import InputError
from hoodoo.rows.arrays import one_array

Hashes = npt.NDArray[np.uint64]

_NUMBER = 0x9E3779B97F4A7C15
_INVERSE = pow(_NUMBER, -1, 2**64)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BATCH_ROWS = 4096  # so that the sums stay in the processor's cache


def text_hashes(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The hash of each text, as signed numbers; a null is an `InputError`."""
    if texts.null_count:
        raise InputError("a record key is null")
    whole = one_array(texts.cast(pa.large_string()))
    parts = [_hashes(whole[at : at + _BATCH_ROWS]) for at in range(0, len(whole), _BATCH_ROWS)]
    return pa.array(np.concatenate(parts).view(np.int64) if parts else [], pa.int64())


def _hashes(texts: pa.Array) -> Hashes:
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    starts, ends = offsets[:-1] - begin, offsets[1:] - begin
    sums = np.zeros(end - begin + 1, np.uint64)
    if end > begin:
        data = np.frombuffer(texts.buffers()[2], np.uint8)[begin:end]
        np.cumsum(data * _powers(_INVERSE, len(data)), out=sums[1:])
    values = (sums[ends] - sums[starts]) * _powers(_NUMBER, len(sums))[ends]
    return _mix(values + (ends - starts).astype(np.uint64))


def _mix(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _MIX[0]
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _MIX[1]
    return hashes ^ (hashes >> np.uint64(31))


def _powers(number: int, count: int) -> Hashes:
    return _powers_table(number, max(count, 1).bit_length())[:count]


@lru_cache(maxsize=4)
def _powers_table(number: int, bits: int) -> Hashes:
    factors = np.full(1 << bits, number, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
