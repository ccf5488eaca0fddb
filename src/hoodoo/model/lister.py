"""`Lister`: what tells a table's data files, by directories or by the metadata table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hoodoo.model.files import DataFile
from hoodoo.model.paths import PartitionPath


class Keep(Protocol):
    """Says which partitions matter; `whole` is false for the leading part of their paths."""

    def __call__(self, path: PartitionPath, *, whole: bool) -> bool: ...


class Lister(Protocol):
    """Tells a table's data files."""

    def files(self, keep: Keep) -> Iterable[DataFile]:
        """Data files of the partitions that `keep` wants."""

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted."""


def everything(path: PartitionPath, *, whole: bool) -> bool:
    """Keep every partition."""
    return True
