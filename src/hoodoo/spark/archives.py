"""Zip archives on `sys.path`: their directories are read again only if the archives changed.

PySpark calls `importlib.invalidate_caches()` at the start of each task. From Python 3.10 to 3.12
that reads the directory of each archive, once for each package in it, in plain Python: 0.2 s of
CPU a task, for `pyspark.zip` and the jar of Spark's core. Python 3.13 reads only what is asked for.
"""

from __future__ import annotations

import importlib
import os
import zipimport
from typing import Any
from weakref import WeakKeyDictionary

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
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
