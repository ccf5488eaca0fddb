"""Where the rows of a write go: destinations, the file groups to write, and routes between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.paths import PartitionPath

NEW = ""
"""The label of rows whose key is in no file group: any one of their partition may take them."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an index sends rows: a partition, and a label that the index gives a meaning.

    The label is the id of the file group that has the row's key, `NEW`, or the number of a bucket.
    """

    partition: PartitionPath
    label: str = NEW


Counts = Mapping[Destination, int]
"""How many rows go to each destination."""


class WriteKind(Enum):
    """How a file group is written."""

    CREATE = "create"  # new file group
    MERGE = "merge"  # new base file of an existing group
    APPEND = "append"  # new log file of an existing group


@dataclass(frozen=True, slots=True)
class FileGroupWrite:
    """One file group to write; `index` tells the file groups of a write apart.

    `rolls_over`: a new file group that grows too large is followed by another one. A bucket is one
    file group, however large it gets.
    """

    index: int
    kind: WriteKind
    group: FileGroupId
    previous: FileSlice | None = None
    inserts: int = 0
    updates: int = 0
    rolls_over: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """Which rows of a destination a file group gets: the share from `first` to `end`, of `of`."""

    destination: Destination
    write: int
    first: int = 0
    end: int = 1
    of: int = 1
