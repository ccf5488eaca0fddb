"""Settings of the Python workers that run tasks."""

from __future__ import annotations

import os

import pyarrow as pa


def settle() -> None:
    """Let Arrow take its memory from the system's allocator, unless somebody chose another.

    Workers are young, as Spark ends them after a minute without work. The others pay for each new
    page of memory far more than they save later: a second of four for a file of 100 MB.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
