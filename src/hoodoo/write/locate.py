"""Where keys live: incoming rows -> the file groups that hold their keys, by the table's index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.index import (
    INDEX_TYPE,
    PRUNE_BY_RANGES,
    UPDATE_PARTITION_PATH,
    IndexType,
    bucket_rule,
)
from hoodoo.engine.base import Engine
from hoodoo.errors import naming
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.data import decode_data
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.buckets import bucket_of
from hoodoo.model.files import FileSlice
from hoodoo.model.paths import PartitionPath
from hoodoo.rows import merge
from hoodoo.rows.buckets import bucket_numbers
from hoodoo.rows.merge import Changes
from hoodoo.table.base import SliceRead, read_base
from hoodoo.table.merged import log_blocks, merged_rows
from hoodoo.table.read import read_rule, read_slice, slice_reads
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.lookup import KeySearch, SliceKeys, in_common, search
from hoodoo.write.prepare import Incoming

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Located:
    """Which of the incoming rows go to each slice, and which have no slice yet.

    A key may be in several slices: in several partitions, or inserted twice. `leaving` are the
    rows whose keys go away from each slice, to the partition of the row.
    """

    slices: Sequence[FileSlice]
    rows_of: Sequence[Positions]
    nowhere: Positions
    leaving: Sequence[Positions]


def all_new(count: int) -> Located:
    """What is known of rows whose keys nobody looked for."""
    return Located((), (), np.arange(count, dtype=np.int64), ())


def _staying(slices: Sequence[FileSlice], rows_of: Sequence[Positions], count: int) -> Located:
    """Of so many rows, these belong to the slices, and none leaves one."""
    none = np.zeros(0, np.int64)
    return Located(slices, rows_of, _others(rows_of, count), [none] * len(slices))


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
    index = snapshot.ref.config.get(INDEX_TYPE)
    if index is IndexType.BUCKET:
        return in_buckets(snapshot, incoming, in_all_partitions=in_all_partitions)
    if index is IndexType.GLOBAL_SIMPLE and not in_all_partitions:
        return _anywhere(snapshot, incoming, engine)
    slices, asked = _asked(snapshot, incoming, in_all_partitions=in_all_partitions)
    keys = {partition: incoming.keys.take(pa.array(rows)) for partition, rows in asked.items()}
    reads = slice_reads(snapshot, read_rule(snapshot, columns=[RECORD_KEY]), slices)
    by_footer = index is IndexType.BLOOM
    probe = _Probe(keys, by_footer, by_range=snapshot.ref.config.get(PRUNE_BY_RANGES))
    live, dead = [], []
    for slice_, (lives, is_dead) in zip(slices, engine.map(probe, reads), strict=True):
        rows = asked[slice_.group.partition]
        live.append(rows[lives])
        dead.append(rows[is_dead])
    rows_of = live if only_live else _where_known(live, dead, incoming.num_rows)
    return _staying(slices, rows_of, incoming.num_rows)


@dataclass(frozen=True, slots=True)
class _Probe:
    """Looks for the keys of a slice's partition in it: which live there, which were deleted.

    All keys travel with the task, once, and only the positions of those that were found come back.
    """

    keys: Mapping[PartitionPath, pa.Array]
    by_footer: bool
    by_range: bool

    def __call__(self, read: SliceRead) -> tuple[Positions, Positions]:
        keys = self.keys[read.slice.group.partition]
        found = search(KeySearch(read, keys, self.by_range)) if self.by_footer else slice_keys(read)
        lives = in_common(keys, found.alive)
        if found.live is None:
            return np.flatnonzero(lives), np.zeros(0, np.int64)
        return np.flatnonzero(lives), np.flatnonzero(in_common(keys, found.present) & ~lives)


def _where_known(
    live: Sequence[Positions], dead: Sequence[Positions], count: int
) -> list[Positions]:
    """Rows go where their key lives; if it does so nowhere, to where it was deleted."""
    lives = np.zeros(count, bool)
    for rows in live:
        lives[rows] = True
    return [
        np.union1d(here, gone[~lives[gone]]) if len(gone) else here
        for here, gone in zip(live, dead, strict=True)
    ]


def in_buckets(
    snapshot: Snapshot, incoming: Incoming, *, in_all_partitions: bool = False
) -> Located:
    """The bucket index: each row belongs to the slice that has the number of its key's hash."""
    rule = bucket_rule(snapshot.ref.config, snapshot.ref.properties.keys.record_fields)
    numbers = bucket_numbers(incoming.keys, rule)
    slices, asked = _asked(snapshot, incoming, in_all_partitions=in_all_partitions)
    rows_of = []
    for slice_ in slices:
        rows = asked[slice_.group.partition]
        rows_of.append(rows[numbers[rows] == bucket_of(slice_.group.file_id)])
    return _staying(slices, rows_of, incoming.num_rows)


def _asked(
    snapshot: Snapshot, incoming: Incoming, *, in_all_partitions: bool
) -> tuple[list[FileSlice], dict[PartitionPath, Positions]]:
    """The slices that may have keys of incoming rows, and which rows to ask their partition for."""
    slices = snapshot.slices()
    every = np.arange(incoming.num_rows, dtype=np.int64)
    if in_all_partitions:
        return slices, {slice_.group.partition: every for slice_ in slices}
    asked = positions_by_partition(incoming, every)
    return [slice_ for slice_ in slices if slice_.group.partition in asked], asked


def positions_by_partition(
    incoming: Incoming, positions: Positions
) -> dict[PartitionPath, Positions]:
    """Some rows by the partition that they belong to, in order."""
    encoded = incoming.partitions.take(pa.array(positions)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    return {
        PartitionPath(partition): positions[order[bounds[n] : bounds[n + 1]]]
        for n, partition in enumerate(encoded.dictionary.to_pylist())
    }


def _others(rows_of: Sequence[Positions], count: int) -> Positions:
    """The rows that are in none of these."""
    left = np.ones(count, bool)
    for rows in rows_of:
        left[rows] = False
    return np.flatnonzero(left)


def _are_in(keys: pa.Array, known: pa.Array) -> Flags:
    return np.asarray(pc.is_in(keys, value_set=known).to_numpy(zero_copy_only=False), bool)


# -- the global index -------------------------------------------------------------------------


def _anywhere(snapshot: Snapshot, incoming: Incoming, engine: Engine) -> Located:
    """The global index: a key is one row of the table, in whatever partition.

    A row whose key lives in another partition moves to its own, unless it is the older one; or, by
    the settings, it is written where its key lives.
    """
    slices = snapshot.slices()
    reads = slice_reads(snapshot, read_rule(snapshot, columns=[RECORD_KEY]), slices)
    live: list[Positions] = []  # in the row's own partition
    dead: list[Positions] = []
    away: list[Positions] = []  # alive in another one
    for slice_, keys in zip(slices, engine.map(slice_keys, reads), strict=True):
        own = _are_in(incoming.partitions, pa.array([slice_.group.partition]))
        lives = _are_in(incoming.keys, keys.alive)
        live.append(np.flatnonzero(lives & own))
        dead.append(np.flatnonzero(_are_in(incoming.keys, keys.present) & ~lives & own))
        away.append(np.flatnonzero(lives & ~own))
    if not snapshot.ref.config.get(UPDATE_PARTITION_PATH):
        anywhere = [np.union1d(here, there) for here, there in zip(live, away, strict=True)]
        rows_of = _where_known(anywhere, dead, incoming.num_rows)
        return _staying(slices, rows_of, incoming.num_rows)
    late = _outdated(snapshot, incoming, slices, away, engine)
    known = _where_known(live, dead, incoming.num_rows)
    nowhere = _others([*known, np.flatnonzero(late)], incoming.num_rows)
    rows_of = [rows[~late[rows]] for rows in known]
    return Located(slices, rows_of, nowhere, [rows[~late[rows]] for rows in away])


def _outdated(
    snapshot: Snapshot,
    incoming: Incoming,
    slices: Sequence[FileSlice],
    away: Sequence[Positions],
    engine: Engine,
) -> Flags:
    """Which rows are older than the one that has their key in another partition."""
    rule, schema = snapshot.ref.properties.merge, snapshot.schema
    late = np.zeros(incoming.num_rows, bool)
    asked = [(s, rows) for s, rows in zip(slices, away, strict=True) if len(rows)]
    if not rule.by_event_time or not asked:
        return late
    fields = [f if f in schema.names else f.split(".")[0] for f in rule.ordering_fields]
    read = read_rule(snapshot, columns=[RECORD_KEY, *dict.fromkeys(fields)])
    stored = engine.map(read_slice, slice_reads(snapshot, read, [s for s, _ in asked]))
    ordering = merge.ordering_columns(incoming.rows, rule)
    for (_, rows), there in zip(asked, stored, strict=True):
        taken, none = pa.array(rows), np.zeros(len(rows), bool)
        order = tuple(column.take(taken) for column in ordering)
        changes = Changes(incoming.keys.take(taken), order, none, none, pa.table({"row": rows}))
        merger = merge.Merger(changes)
        merger.keep(there, there.column(RECORD_KEY), rule)
        late[np.setdiff1d(rows, merger.rest().column("row").to_numpy())] = True
    return late


# -- keys of a slice --------------------------------------------------------------------------


def slice_keys(task: SliceRead) -> SliceKeys:
    """All keys in a slice's files, deleted ones too."""
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
