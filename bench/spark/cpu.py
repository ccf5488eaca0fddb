"""CPU seconds of this process and all below it: what noise of other processes does not change."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
PARENT, FIRST_TIME, LAST_TIME = 1, 11, 15
"""Fields of `stat` after the name: the parent; user and system time, own and of dead children."""


def tree_seconds() -> float:
    """Seconds since each was started, of those that live and of those that they waited for."""
    below, ticks = defaultdict[int, list[int]](list), dict[int, int]()
    for place in PROC.glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(place.parent.name)
        below[int(fields[PARENT])].append(pid)
        ticks[pid] = sum(map(int, fields[FIRST_TIME:LAST_TIME]))
    total, pending = 0, [os.getpid()]
    while pending:
        pid = pending.pop()
        total += ticks.get(pid, 0)
        pending += below[pid]
    return total / TICKS
