"""The order that a clustering gives to rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """How several columns make one order."""

    LINEAR = "linear"
    """By the first column, rows that are equal in it by the next, and so on."""
    ZORDER = "zorder"
    """Along a z-order curve: every column counts alike."""
    HILBERT = "hilbert"
    """Along a Hilbert curve: as z-order, without its jumps."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that rows are ordered by, none if they stay as they come, and how."""

    columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR

    def __str__(self) -> str:
        return f"{self.layout.value} {','.join(self.columns)}"
