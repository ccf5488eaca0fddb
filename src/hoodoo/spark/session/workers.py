"""What all work in Spark's Python workers has in common: errors, and quick imports from archives.

PySpark calls `importlib.invalidate_caches()` at the start of each task. From Python 3.10 to 3.12
that reads the directory of each archive, once for each package in it, in plain Python: 0.2 s of
CPU a task, for `pyspark.zip` and the jar of Spark's core. Python 3.13 reads only what is imported.
Here a directory is read again only if its archive has changed.
"""

from __future__ import annotations

import importlib
import os
import zipimport
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa

from hoodoo.errors import HoodooError, StorageError

# -- zip archives on sys.path ----------------------------------------------------------------------


Version = tuple[int, int]
"""The time of an archive's last change, and its size."""

_versions: WeakKeyDictionary[Any, Version] = WeakKeyDictionary()
_read_again = getattr(zipimport.zipimporter, "invalidate_caches", None)
_reads_at_once = _read_again is not None and not hasattr(zipimport.zipimporter, "_get_files")


def keep_directories() -> None:
    """Let importers of this process read an archive's directory again only where it changed."""
    if _reads_at_once and zipimport.zipimporter.invalidate_caches is not _read_if_changed:
        setattr(zipimport.zipimporter, "invalidate_caches", _read_if_changed)  # noqa: B010 types differ
        importlib.invalidate_caches()  # from here on it is known which versions were read


def _read_if_changed(importer: Any) -> None:
    version = _version_of(importer.archive)
    if version is None or _versions.get(importer) != version:
        assert _read_again is not None
        _read_again(importer)
        _remember(importer, version)


def _remember(importer: Any, version: Version | None) -> None:
    if version is None:
        _versions.pop(importer, None)
    else:
        _versions[importer] = version


def _version_of(path: str) -> Version | None:
    """None if there is no archive."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


# -- code around every task ------------------------------------------------------------------------


Result = TypeVar("Result")

_USUAL = "mimalloc"


def return_permanent_errors(work: Callable[[], Result]) -> Result | HoodooError:
    """What the work gives, or an error that trying again cannot mend.

    That one is returned, as Spark tries again what raises. Errors of the store are raised.
    """
    tune_worker()
    try:
        return work()
    except StorageError:
        raise
    except HoodooError as error:
        return error


def tune_worker() -> None:
    """Make a worker cheap: what it need not read again it does not, and memory is the system's.

    Workers are young, as Spark ends them after a minute without work. Arrow's allocator pays for
    each new page of memory far more than it saves later: a second of four for a file of 100 MB.
    """
    keep_directories()
    if pa.default_memory_pool().backend_name == _USUAL:
        pa.set_memory_pool(pa.system_memory_pool())
