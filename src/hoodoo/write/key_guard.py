"""The key guard: keys that a write inserts as new, and that someone else inserted meanwhile.

Two writes that each insert a key into a file group of its own overlap nowhere, so no rule about
file groups sees them. At the gate, the guard looks for the keys in what others added since the
write was planned. Footers of base files rule most of it out; log files are read, since Apache Hudi
can insert into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodoo.concurrency.conflict import TRY_AGAIN, Mine, Other, Touch
from hoodoo.engine.base import Engine
from hoodoo.errors import WriteConflict
from hoodoo.format.schema import RECORD_KEY, with_meta_fields
from hoodoo.model.files import FileSlice
from hoodoo.model.paths import PartitionPath
from hoodoo.model.slices import Visibility, file_groups
from hoodoo.table.base import SliceRead, rule_of
from hoodoo.table.ref import TableRef
from hoodoo.write.locate import Positions
from hoodoo.write.lookup import KeySearch, search
from hoodoo.write.prepare import Incoming

InsertedKeys = Mapping[PartitionPath, pa.Array]

_KEYS_NAMED = 3


def inserted_keys(incoming: Incoming, new: Positions) -> dict[PartitionPath, pa.Array]:
    """The keys of rows that are new to the table, by partition."""
    rows = incoming.take(pa.array(new))
    pairs = pa.table({"partition": rows.partitions, "key": rows.keys})
    grouped = pairs.group_by("partition").aggregate([("key", "list")])
    partitions, keys = grouped.column("partition"), grouped.column("key_list")
    return {
        PartitionPath(partition.as_py()): found.values
        for partition, found in zip(partitions, keys, strict=True)
    }


def refuse_collisions(
    mine: Mine, ref: TableRef, inserted: InsertedKeys, others: Sequence[Other], engine: Engine
) -> None:
    """Fail if a key that mine inserts is in a file that one of the others added.

    Needs: a transaction; `others` are all that were completed since mine was planned.
    Raises `WriteConflict`.
    """
    keys = colliding_keys(ref, inserted, others, engine)
    if keys:
        named = ", ".join(map(repr, keys[:_KEYS_NAMED]))
        more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
        raise WriteConflict(
            f"write {mine.time} inserts keys that others inserted meanwhile: {named}{more}. "
            f"Nothing of it is visible: {TRY_AGAIN}",
            instant=mine.time,
            others=tuple(other.time for other in others if other.added),
        )


def colliding_keys(
    ref: TableRef, inserted: InsertedKeys, others: Sequence[Other], engine: Engine
) -> list[str]:
    """Those of the inserted keys that are in a file that others added to the same partition."""
    rule = rule_of(ref.properties, with_meta_fields(pa.schema([])), (RECORD_KEY,))
    seen = _visibility(others)
    tasks = [
        KeySearch(SliceRead(ref.env, slice_, rule, seen), inserted[slice_.group.partition])
        for slice_ in added_slices(others)
        if slice_.group.partition in inserted
    ]
    found = engine.map(search, tasks)
    return sorted({key for keys in found for key in keys.present.to_pylist()})


def added_slices(others: Sequence[Other]) -> list[FileSlice]:
    """What others added, as the newest slice of each file group that is still in the table.

    A newer base file has the keys of what it was made from, so no older file need be read; those
    may have been cleaned, as may the files of groups that were replaced.
    """
    completed = [other for other in others if other.instant.is_completed]
    gone = {
        group for other in completed for group, how in other.touched.items() if how is Touch.REPLACE
    }
    files = [file for other in completed for file in other.added]
    groups = file_groups(files, _visibility(completed), by_completion=True)
    return [group.latest for group in groups if group.id not in gone]


def _visibility(others: Sequence[Other]) -> Visibility:
    return Visibility({other.time: other.instant.ended_at for other in others})
