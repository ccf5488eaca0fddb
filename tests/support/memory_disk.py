"""Temporary folders of tests in memory, where a sync costs nothing, if there is room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Several times of what a run of all tests has at a time."""


def has_room(disk: Path) -> bool:
    """Whether all that tests write fits there; no, where there is no such disk."""
    is_usable = disk.is_dir() and os.access(disk, os.W_OK | os.X_OK)
    return is_usable and shutil.disk_usage(disk).free >= ROOM_BYTES
