"""The global simple index: a key is one row of the whole table, in whatever partition."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.index.file_search import FileSearch
from hoodoo.index.matches import Matches, Targets, keep_where_known, move_to_own_partition


@dataclass(frozen=True, slots=True)
class GlobalSimpleIndex(FileSearch):
    """`moves`: a row whose key lives in another partition moves to its own; else it stays there."""

    moves: bool = True
    by_event_time: bool = False

    is_global = True

    @property
    def compares_ordering(self) -> bool:
        return self.moves and self.by_event_time

    def choose(self, matches: Matches) -> Targets:
        return move_to_own_partition(matches) if self.moves else keep_where_known(matches)
