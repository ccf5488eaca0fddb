"""Which task gets which rows, and which small items share a task.

Spark places a row by the murmur hash of a column. So that row and task meet exactly, and tasks
are evenly loaded, each task gets a number whose hash leads to it.

Several small items go into one task: a task of its own would cost more than the work on it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# -- rows to tasks, by a number whose hash leads there ---------------------------------------------


_SEED = 42


def numbers_for_tasks(tasks: int) -> list[int]:
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


# -- several items in one task ---------------------------------------------------------------------


FULL_TASK_BYTES = 32 << 20
"""So much work is worth a task: about half a second, beside some hundredths to start it."""


def pack(sizes: Sequence[int], *, at_least: int, most: int | None = None) -> list[list[int]]:
    """The positions of items of these sizes (bytes) for each task, evenly; none without items.

    There are `at_least` tasks if there are so many items, and more if there is work for them, but
    never more than `most`. The largest items come first, as they take longest.
    """
    full = -(-sum(sizes) // FULL_TASK_BYTES)
    count = min(len(sizes), max(at_least, full), most or len(sizes))
    tasks: list[list[int]] = [[] for _ in range(count)]
    loads = [(0, task) for task in range(count)]
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        load, task = loads[0]
        tasks[task].append(position)
        heapq.heapreplace(loads, (load + max(sizes[position], 1), task))
    return tasks


_TASK_BYTES = 128 * 1024 * 1024


def balance_loads(sizes: Sequence[int], *, most: int) -> list[list[int]]:
    """Numbers of things of these sizes in loads of about equal size.

    There are as many loads as things, or `most`, or more if they would be too large.
    """
    count = min(len(sizes), max(most, sum(sizes) // _TASK_BYTES))
    loads: list[tuple[int, int, list[int]]] = [(0, number, []) for number in range(count)]
    for number in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        size, load, numbers = loads[0]
        numbers.append(number)
        heapq.heapreplace(loads, (size + sizes[number], load, numbers))
    return [numbers for _, _, numbers in sorted(loads, key=lambda load: load[1])]
