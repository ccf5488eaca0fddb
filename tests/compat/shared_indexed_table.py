"""A table with a metadata table, whose indexes we and Apache Hudi both keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from compat.metadata_beside import assert_indexes_are_current, assert_no_complaints
from compat.peer_client import Peer
from compat.peer_rows import FIRST, trips
from compat.peer_tables import METADATA, MOR, OPERATION
from compat.same_rows import assert_same_rows
from compat.shared_table import ALONE, NO_SMALL_FILES, new_table, texts
from support.wheel import wheel_rows

import hoodoo

STATS = "hoodie.metadata.index.column.stats.enable"
RECORDS = "hoodie.metadata.global.record.level.index.enable"
COMPACT = "hoodie.metadata.compact.max.delta.commits"
LISTING = {METADATA: "true", STATS: "false", COMPACT: "4"}
INDEXED = {
    METADATA: "true",
    STATS: "true",
    RECORDS: "true",
    COMPACT: "4",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}
"""For both sides; a writer of Hudi's deletes an index that it is not told of.

With another index to find keys by, Hudi forgets to put a key into the record index of a MOR table
that was deleted in a log and comes again (docs/compatibility.md).
"""
SKIPPING = {METADATA: "true", "hoodie.enable.data.skipping": "true"}


@dataclass
class Both:
    """One table with a metadata table, and its two writers."""

    hudi: Peer
    place: Path
    kind: str
    options: Mapping[str, str]
    """Ours."""
    settings: Mapping[str, str]
    """Hudi's."""

    @property
    def table(self) -> hoodoo.Table:
        return hoodoo.open_table(str(self.place), self.options)

    def make(self, creator: str) -> None:
        """The first rows, in a table that one of the two makes."""
        if creator == "hudi":
            self.theirs(*FIRST, operation="insert")
            return
        new_table(self.place, self.kind, self.options)
        self.table.insert(trips(*FIRST))

    def theirs(self, *lines: str, operation: str = "upsert") -> None:
        self.hudi.write(self.place, trips(*lines), {**self.settings, OPERATION: operation})

    def check(self, *expected: str) -> None:
        """All read these rows, `id ts fare`, by the metadata table and by directories."""
        ours = self.check_ours(*expected)
        for options in (SKIPPING, {METADATA: "false"}):
            assert_same_rows(ours, self.hudi.read(self.place, options))
        assert_no_complaints(self.hudi, self.place)

    def check_ours(self, *expected: str) -> pa.Table:
        """We and the wheel read these rows, and each index is that of a scan."""
        ours = hoodoo.open_table(str(self.place)).to_arrow()
        assert_same_rows(hoodoo.open_table(str(self.place), {METADATA: False}).to_arrow(), ours)
        assert texts(ours.to_pylist()) == sorted(expected)
        assert texts(wheel_rows(self.place)) == sorted(expected)
        assert_indexes_are_current(self.place)
        return ours


def with_indexes(
    hudi: Peer,
    place: Path,
    kind: str,
    indexes: Mapping[str, str],
    settings: Mapping[str, str] = ALONE,
    lock: Mapping[str, str] | None = None,
) -> Both:
    """Both know of these indexes; `settings` are Hudi's, `lock` is ours for them."""
    partitions = {"hoodie.metadata.index.partition.stats.enable": indexes[STATS]}
    type_ = MOR if kind == "mor" else {}
    theirs = {**settings, **type_, **NO_SMALL_FILES, **indexes, **partitions}
    return Both(hudi, place, kind, {**indexes, **(lock or {}), **NO_SMALL_FILES}, theirs)
