"""This process in another time zone, for a while."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """The operating system's zone for this process, as the variable TZ sets it."""
    before = os.environ.get("TZ")
    _set(name)
    try:
        yield
    finally:
        _set(before)


def _set(name: str | None) -> None:
    if name is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = name
    time.tzset()
