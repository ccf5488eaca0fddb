"""Where keys live: incoming rows -> the file groups that hold their keys (the simple index)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.base import Engine
from hoodoo.errors import naming
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.data import decode_data
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.files import FileSlice
from hoodoo.rows import merge
from hoodoo.table.base import SliceRead, read_base
from hoodoo.table.merged import log_blocks, merged_rows
from hoodoo.table.read import read_rule, slice_reads
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.prepare import Incoming

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SliceKeys:
    """Keys of a slice. Logs may have deleted some; `live` has the others, None if that is all."""

    present: pa.Array
    live: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """Which of the incoming rows each slice holds the key of, and which are held nowhere.

    A key may be in several slices: in several partitions, or inserted twice.
    """

    slices: Sequence[FileSlice]
    keys: Sequence[SliceKeys]
    rows_of: Sequence[Positions]
    nowhere: Positions


def all_new(count: int) -> Located:
    """What is known of rows whose keys nobody looked for."""
    return Located((), (), (), np.arange(count, dtype=np.int64))


def locate(
    snapshot: Snapshot,
    incoming: Incoming,
    engine: Engine,
    *,
    in_all_partitions: bool = False,
    only_live: bool = False,
) -> Located:
    """Find the file groups of each row's key, in the row's partition or in all of them.

    `only_live` passes over keys that logs have deleted.
    """
    partitions = set(pc.unique(incoming.partitions).to_pylist())
    slices = [s for s in snapshot.slices() if in_all_partitions or s.group.partition in partitions]
    rule = read_rule(snapshot, columns=[RECORD_KEY])
    keys = engine.map(slice_keys, slice_reads(snapshot, rule, slices))
    rows_of = []
    is_new = np.ones(incoming.num_rows, bool)
    for slice_, found in zip(slices, keys, strict=True):
        known = found.live if only_live and found.live is not None else found.present
        hit = pc.is_in(incoming.keys, value_set=known)
        if not in_all_partitions:
            hit = pc.and_(hit, pc.equal(incoming.partitions, slice_.group.partition))
        positions = np.flatnonzero(hit.to_numpy(zero_copy_only=False))
        is_new[positions] = False
        rows_of.append(positions)
    return Located(slices, keys, rows_of, np.flatnonzero(is_new))


def slice_keys(task: SliceRead) -> SliceKeys:
    """The keys in a slice's files, deleted ones too.

    A deleted key still belongs to its group: Apache Hudi's index finds it there in the base file,
    and would find it twice if the key were inserted again elsewhere.
    """
    wanted = pa.schema([task.rule.schema.field(RECORD_KEY)])
    parts = []
    if task.slice.base is not None:
        parts.append(read_base(task.env, task.slice.base, task.rule, wanted))
    if not task.slice.logs:
        return SliceKeys(merge.one_array(parts[0].column(RECORD_KEY)))
    for path, block in log_blocks(task):
        if block.type is not BlockType.DELETE:
            with naming(path):
                parts.append(decode_data(block, columns=[RECORD_KEY]).select([RECORD_KEY]))
    present = (
        pa.concat_tables(parts).column(RECORD_KEY) if parts else pa.chunked_array([[]], pa.string())
    )
    live = merge.one_array(merged_rows(task).column(RECORD_KEY))
    return SliceKeys(pc.unique(present), live)
