"""Timing two ways of doing the same, turn by turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def best(function: Callable[[], object], repeat: int = 5) -> float:
    """Seconds of the fastest of several runs."""
    return min(_once(function) for _ in range(repeat))


def side_by_side(
    ours: Callable[[], object], theirs: Callable[[], object], repeat: int = 7
) -> tuple[float, float]:
    """Best seconds of both, run in turns so that noise hits both."""
    pairs = [(_once(ours), _once(theirs)) for _ in range(repeat)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def _once(function: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    result = function()
    took = time.perf_counter() - started
    del result
    return took


def ratio_line(what: str, ours: float, theirs: float, aim: float | None = None) -> str:
    """One line of a report."""
    ratio = ours / theirs
    verdict = ""
    if aim is not None:
        verdict = f" (aim {aim}x: {'met' if ratio <= aim else 'MISSED'})"
    return f"{what:<58} {_time(ours)} against {_time(theirs)}  {ratio:5.2f}x{verdict}"


def _time(seconds: float) -> str:
    return f"{seconds:7.3f} s" if seconds >= 0.1 else f"{seconds * 1000:6.2f} ms"
