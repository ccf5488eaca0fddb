"""CPU seconds of this process and all below it: what other processes take does not change them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
PARENT, USER, SYSTEM = 1, 11, 12
"""Fields of a process's `stat`, counted from behind its name."""


def seconds_by_process() -> dict[int, float]:
    """What each process of this tree has used since it was started; nothing but on Linux."""
    below, used = defaultdict[int, list[int]](list), dict[int, float]()
    for place in PROC.glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(place.parent.name)
        below[int(fields[PARENT])].append(pid)
        used[pid] = (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
    tree, pending = dict[int, float](), [os.getpid()]
    while pending:
        pid = pending.pop()
        tree[pid] = used.get(pid, 0.0)
        pending += below[pid]
    return tree


def seconds_since(before: Mapping[int, float]) -> float:
    """What the tree has used since; of those that ended meanwhile nothing is known any more."""
    now = seconds_by_process()
    return sum(max(used - before.get(pid, 0.0), 0.0) for pid, used in now.items())
