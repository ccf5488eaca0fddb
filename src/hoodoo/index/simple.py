"""The simple index: the keys of all files that may have them are read and compared."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.index.file_search import FileSearch


@dataclass(frozen=True, slots=True)
class SimpleIndex(FileSearch):
    """A key is one row of its partition."""
