"""`Index`: the rule by which a table finds the file groups of record keys.

An index is a rule and moves nothing. Carriers bring keys to it: `write.planning.locate` where the
keys are in this process, `spark.write.join_keys` where they are in Spark. An index is one of three
kinds:

- it **searches files**: `search` says which keys a slice has, `choose` what follows for a row;
- it **looks keys up**: what `open_lookup` gives says which slice has a key, `choose` what follows;
- it **computes labels**: `labels` says it for each key, without a look at any slice.

Each kind says with `assign` which file groups are written once it is known how many rows go
to each destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodoo.model.files import FileSlice
from hoodoo.model.keys import BucketRule
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.snapshot import Snapshot
from hoodoo.write.index.destinations import Counts, Destination, FileGroupWrite, Route
from hoodoo.write.index.key_filters import StoredFilters
from hoodoo.write.index.matches import Matches, Targets
from hoodoo.write.index.slice_keys import KeyRange, SliceKeys


@dataclass(frozen=True, slots=True)
class WritableSlices:
    """The slices that a write may touch: `present` ones, of which `fillable` may take new rows."""

    present: Sequence[FileSlice]
    fillable: Sequence[FileSlice]


@dataclass(frozen=True, slots=True)
class GroupsAndRoutes:
    """The file groups of a write, and which rows each of them gets."""

    writes: list[FileGroupWrite]
    routes: list[Route]


class KeyLookup(Protocol):
    """Where record keys are, for whoever asks. It pickles: workers ask for shares of the keys.

    Keys of one share are best asked for together, and by one worker.
    """

    @property
    def shares(self) -> int:
        """How many shares there are."""

    def number_shares(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The share of each key, from 0: Java's hash of the text, modulo the number of shares."""

    def size_bytes(self, share: int) -> int:
        """How much there is to read for a share, at most."""

    def find(self, share: int, keys: pa.Array) -> pa.Table:
        """Columns `key`, `partition`, `file_id`: a row for each key that is in a file group."""


class Index(Protocol):
    """How the file groups of incoming keys are found. Indexes pickle: workers run their rules."""

    @property
    def is_global(self) -> bool:
        """Whether a key is one row of the whole table, not of its partition."""

    @property
    def searches_files(self) -> bool:
        """Whether keys are looked for; else `labels` tells where they belong."""

    @property
    def buckets(self) -> BucketRule | None:
        """How keys make buckets, if labels are their numbers: each is one file group then."""

    @property
    def asks_footers(self) -> bool:
        """Whether footers rule files out, so that keys are best sent to the files."""

    @property
    def compares_ordering(self) -> bool:
        """Whether `choose` needs to know which stored rows are newer."""

    def refuse_incompatible_settings(self, snapshot: Snapshot) -> None:
        """Fail if rows written by these settings would not be found by those of the table."""

    def open_filters(self, snapshot: Snapshot) -> StoredFilters | None:
        """What tells of base files which keys they may have; None if they are to be opened."""

    def search(
        self, read: SliceReadTask, keys: pa.Array, in_base: pa.Array | None = None
    ) -> SliceKeys:
        """What is in a slice: at least which of these keys, at most all of its keys.

        `in_base`: those of the keys that the base file may have, if filters told.
        """

    def key_range(self, read: SliceReadTask) -> KeyRange | None:
        """The smallest and the largest key of a slice, if known and worth knowing."""

    def open_lookup(self, snapshot: Snapshot) -> KeyLookup | None:
        """What tells the file groups of keys; None if files are to be searched instead."""

    def choose(self, matches: Matches) -> Targets:
        """Where rows go whose keys were found. Pure."""

    def labels(self, keys: pa.Array) -> pa.Array:
        """The label of each key that no file is searched for. Pure."""

    def destinations(self, slices: Sequence[FileSlice]) -> dict[Destination, FileSlice]:
        """The slices by the destination that leads to them."""

    def assign(
        self, snapshot: Snapshot, counts: Counts, room: WritableSlices, write_id: str
    ) -> GroupsAndRoutes:
        """The file groups to write for so many rows per destination."""
