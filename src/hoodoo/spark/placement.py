"""Sending rows to the task that is meant for them.

Spark places a row by the murmur hash of a column. So that row and task meet exactly, and tasks
are evenly loaded, each task gets a number whose hash leads to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 42


def leading_numbers(tasks: int) -> list[int]:
    """For each of `tasks` tasks a number that `repartition(tasks, number)` sends to it."""
    leading = np.full(tasks, -1, np.int64)
    begin, missing = 0, tasks
    while missing:
        numbers = np.arange(begin, begin + 8 * tasks, dtype=np.int32)
        targets = _hashes(numbers).astype(np.int64) % tasks
        leading[targets[::-1]] = np.where(
            leading[targets[::-1]] < 0, numbers[::-1], leading[targets[::-1]]
        )
        begin += 8 * tasks
        missing = int(np.sum(leading < 0))
    return [int(number) for number in leading]


def _hashes(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's `hash` of ints: murmur 3, 32 bits, of four bytes."""
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotate(k, 15) * np.uint32(0x1B873593)
        h = _rotate(np.uint32(_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (h ^ (h >> np.uint32(16))).astype(np.int32)


def _rotate(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
