"""Several small items in one task: a task of its own costs each more than the work on it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

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
