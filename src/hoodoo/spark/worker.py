"""What all work in Spark's Python workers has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from hoodoo.errors import HoodooError, StorageError
from hoodoo.spark.archives import keep_directories

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
    """Make a worker cheap: what it need not read again it does not, and memory is the system's.

    Workers are young, as Spark ends them after a minute without work. Arrow's allocator pays for
    each new page of memory far more than it saves later: a second of four for a file of 100 MB.
    """
    keep_directories()
    if pa.default_memory_pool().backend_name == _USUAL:
        pa.set_memory_pool(pa.system_memory_pool())
