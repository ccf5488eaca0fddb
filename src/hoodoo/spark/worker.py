"""What all work in Spark's Python workers has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from hoodoo.errors import HoodooError, StorageError

Result = TypeVar("Result")

_USUAL = "mimalloc"


def attempt(work: Callable[[], Result]) -> Result | HoodooError:
    """What the work gives, or an error that trying again cannot mend.

    That one is returned, as Spark tries again what raises. Errors of the store are raised.
    """
    settle()
    try:
        return work()
    except StorageError:
        raise
    except HoodooError as error:
        return error


def settle() -> None:
    """Let Arrow take its memory from the system's allocator rather than from its usual one.

    Workers are young, as Spark ends them after a minute without work. Arrow's allocator pays for
    each new page of memory far more than it saves later: a second of four for a file of 100 MB.
    """
    if pa.default_memory_pool().backend_name == _USUAL:
        pa.set_memory_pool(pa.system_memory_pool())
