"""Where rows go whose keys are in this process, and the write that this makes.

`locate` finds the file groups of the incoming keys: an engine carries the keys to the files. Then
`route_rows` and `route_changes` assign rows to file groups, and hand each file group its changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.merge import MergeRule
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import Snapshot
from hoodoo.rows import arrays, merge
from hoodoo.rows.merge import Changes
from hoodoo.runtime.engine import REQUEST_BYTES, Engine
from hoodoo.write.index import Index
from hoodoo.write.index.destinations import Counts, Destination, Route
from hoodoo.write.index.index import KeyLookup
from hoodoo.write.index.key_filters import AT_ONCE, StoredFilters
from hoodoo.write.index.matches import (
    NEW_FILE_GROUP,
    Flags,
    Matches,
    Positions,
    Targets,
    keep_live_matches,
)
from hoodoo.write.index.slice_keys import SliceKeys, is_member
from hoodoo.write.planning.assignment import Assignment, WriteTarget, assign
from hoodoo.write.planning.prepare import Incoming

# -- finding file groups of keys ----------------------------------------------------------------


_NONE: Positions = np.zeros(0, np.int64)
_SEP = "\0"


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """The destination of each incoming row, by position. A key may have several.

    `leaving`: rows whose keys go away from a destination, to the partition of the row.
    """

    rows: Mapping[Destination, Positions]
    leaving: Mapping[Destination, Positions]

    @property
    def counts(self) -> Counts:
        """How many rows each destination gets."""
        both = dict.fromkeys((*self.rows, *self.leaving))
        return {d: len(self.rows.get(d, _NONE)) + len(self.leaving.get(d, _NONE)) for d in both}

    def only(self, present: AbstractSet[Destination]) -> LocatedRows:
        """Without destinations that are not there yet."""
        return replace(self, rows={d: r for d, r in self.rows.items() if d in present})

    def without_new(self, is_delete: Flags, present: AbstractSet[Destination]) -> LocatedRows:
        """Without rows that are unwanted where their key is in no file group.

        Destinations stay, with no rows if need be: an overwrite replaces their partitions.
        """
        rows = {d: r if d in present else r[~is_delete[r]] for d, r in self.rows.items()}
        return replace(self, rows=rows)

    def route(self, routes: Sequence[Route]) -> dict[int, Positions]:
        """The rows of each file group, in order, by the number of its write."""
        return _route_rows(self.rows, routes)

    def route_leaving(self, routes: Sequence[Route]) -> dict[int, Positions]:
        """The rows whose keys leave each file group, by the number of its write."""
        return _route_rows(self.leaving, routes)


def _route_rows(
    rows: Mapping[Destination, Positions], routes: Sequence[Route]
) -> dict[int, Positions]:
    shares: dict[int, list[Positions]] = {}
    for route in routes:
        positions = rows.get(route.destination, _NONE)
        first, end = (len(positions) * share // route.of for share in (route.first, route.end))
        shares.setdefault(route.write, []).append(positions[first:end])
    return {write: _in_order(np.concatenate(positions)) for write, positions in shares.items()}


def _in_order(positions: Positions) -> Positions:
    """Sorted; mostly they are already, which is quicker to see than to do again."""
    return positions if (positions[1:] >= positions[:-1]).all() else np.sort(positions)


def locate_new(index: Index, incoming: Incoming) -> LocatedRows:
    """Rows that are new whatever keys there are: inserts."""
    return LocatedRows(_locate_by_label(index, incoming, [None]), {})


def locate(
    target: WriteTarget,
    incoming: Incoming,
    engine: Engine,
    *,
    deletes: bool = False,
    in_all_partitions: bool = False,
) -> LocatedRows:
    """The destinations of rows by their keys, in the row's partition or in all of them.

    With `deletes`, keys that are nowhere or were deleted before have no destination.
    """
    snapshot, index = target.snapshot, target.index
    if not index.searches_files:
        places = [slice_.group.partition for slice_ in snapshot.slices()]
        unique = [*dict.fromkeys(places)] if in_all_partitions else [None]
        by_label = LocatedRows(_locate_by_label(index, incoming, unique), {})
        return by_label.only(index.destinations(snapshot.slices()).keys()) if deletes else by_label
    lookup = index.open_lookup(snapshot)
    if lookup is not None:
        slices = snapshot.slices()
        matches = _look_up(lookup, slices, incoming, engine, anywhere=in_all_partitions)
    else:
        slices, matches = _search(snapshot, index, incoming, engine, anywhere=in_all_partitions)
    if index.compares_ordering and not in_all_partitions:
        newer = _find_newer(snapshot, incoming, slices, matches, engine)
        matches = replace(matches, newer=newer)
    targets = keep_live_matches(matches) if deletes else index.choose(matches)
    located_rows = _locate_targets(index, slices, targets)
    return located_rows if deletes else _add_new_rows(located_rows, incoming, targets)


def _search(
    snapshot: Snapshot, index: Index, incoming: Incoming, engine: Engine, *, anywhere: bool
) -> tuple[list[FileSlice], Matches]:
    """Which of the incoming keys each slice has; `anywhere`: rows do not tell their partition."""
    slices, every = snapshot.slices(), np.arange(incoming.num_rows, dtype=np.int64)
    if anywhere or index.is_global:
        rows_by_partition = {slice_.group.partition: every for slice_ in slices}
        keys = dict.fromkeys(rows_by_partition, incoming.keys)
    else:
        by_text = positions_by_text(incoming.partitions)
        rows_by_partition = {PartitionPath(place): rows for place, rows in by_text.items()}
        slices = [slice_ for slice_ in slices if slice_.group.partition in rows_by_partition]
        keys = {
            place: incoming.keys.take(pa.array(rows)) for place, rows in rows_by_partition.items()
        }
    reads = slice_reads(snapshot, build_scan_rule(snapshot, columns=[RECORD_KEY]), slices)
    tasks = _narrow(index.open_filters(snapshot), reads, keys)
    matches_by_slice = engine.map(_Search(index.search, keys), tasks)
    parts = [(_NONE, _NONE, np.zeros(0, bool), np.zeros(0, bool))]
    for number, (slice_, (positions, alive)) in enumerate(
        zip(slices, matches_by_slice, strict=True)
    ):
        rows = rows_by_partition[slice_.group.partition][positions]
        own = np.ones(len(rows), bool)
        if index.is_global and not anywhere:
            own = arrays.to_flags(
                pc.equal(incoming.partitions.take(pa.array(rows)), slice_.group.partition)
            )
        parts.append((rows, np.full(len(rows), number, np.int64), alive, own))
    rows, numbers, alive, own = (np.concatenate(each) for each in zip(*parts, strict=True))
    return slices, Matches(rows, numbers, alive, own, newer=np.zeros(len(rows), bool))


def _narrow(
    filters: StoredFilters | None,
    reads: Sequence[SliceReadTask],
    keys: Mapping[PartitionPath, pa.Array],
) -> list[_SliceSearch]:
    """The slices to search; with the keys that their base files may have, as far as that is known.

    Only so many filters are in memory at a time: what they leave of the keys is little.
    """
    if filters is None:
        return [_SliceSearch(read) for read in reads]
    tasks = []
    for begin in range(0, len(reads), AT_ONCE):
        share = reads[begin : begin + AT_ONCE]
        for read, key_filter in zip(share, filters.load([one.slice for one in share]), strict=True):
            own = keys[read.slice.group.partition]
            tasks.append(_SliceSearch(read, key_filter.keep_possible(own) if key_filter else None))
    return tasks


@dataclass(frozen=True, slots=True)
class _SliceSearch:
    """A slice to search, and the keys that its base file may have; None: any of them."""

    read: SliceReadTask
    in_base: pa.Array | None = None

    @property
    def size_bytes(self) -> int:
        is_spared = self.in_base is not None and not len(self.in_base)
        return 0 if is_spared and not self.read.slice.logs else self.read.size_bytes


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the keys of a slice's partition in it.

    All keys travel with the task, once; positions come back, and which of those keys live there.
    """

    search: Callable[[SliceReadTask, pa.Array, pa.Array | None], SliceKeys]
    keys: Mapping[PartitionPath, pa.Array]

    def __call__(self, task: _SliceSearch) -> tuple[Positions, Flags]:
        keys = self.keys[task.read.slice.group.partition]
        matches = self.search(task.read, keys, task.in_base)
        present = np.flatnonzero(is_member(keys, matches.present))
        if matches.live is None:
            return present, np.ones(len(present), bool)
        return present, is_member(keys.take(pa.array(present)), matches.live)


def _look_up(
    lookup: KeyLookup,
    slices: Sequence[FileSlice],
    incoming: Incoming,
    engine: Engine,
    *,
    anywhere: bool,
) -> Matches:
    """Where the incoming keys are; `anywhere`: rows do not tell their partition."""
    every = np.arange(incoming.num_rows, dtype=np.int64)
    rows_by_share = _positions_by_code(lookup.number_shares(incoming.keys), every)
    tasks = [
        _Share(number, incoming.keys.take(pa.array(rows)), lookup.size_bytes(number))
        for number, rows in rows_by_share.items()
    ]
    numbers = {slice_.group: number for number, slice_ in enumerate(slices)}
    parts = [(_NONE, _NONE)]
    for rows, (positions, groups, codes) in zip(
        rows_by_share.values(), engine.map(_LookUp(lookup), tasks), strict=True
    ):
        slice_of = np.array([numbers[group] for group in groups], np.int64)
        parts.append((rows[positions], slice_of[codes]))
    rows, group_numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
    own = np.ones(len(rows), bool)
    if not anywhere and len(rows):
        partitions = pa.array([slice_.group.partition for slice_ in slices], pa.string())
        there = partitions.take(pa.array(group_numbers))
        own = arrays.to_flags(pc.equal(incoming.partitions.take(pa.array(rows)), there))
    alive = np.ones(len(rows), bool)
    return Matches(rows, group_numbers, alive, own, newer=np.zeros(len(rows), bool))


@dataclass(frozen=True, slots=True)
class _Share:
    """Keys of one share of a look-up."""

    number: int
    keys: pa.Array
    stored_bytes: int

    @property
    def size_bytes(self) -> int:
        return min(self.stored_bytes, REQUEST_BYTES * (1 + len(self.keys)))


@dataclass(frozen=True, slots=True)
class _LookUp:
    """Looks up a share of the keys: what engines run.

    Positions of keys come back, the file groups that have them, and which of those has each key.
    """

    lookup: KeyLookup

    def __call__(self, share: _Share) -> tuple[Positions, list[FileGroupId], Positions]:
        locations = self.lookup.find(share.number, share.keys)
        at = pc.index_in(share.keys, value_set=arrays.one_array(locations.column("key")))
        positions = np.flatnonzero(arrays.to_flags(pc.is_valid(at)))
        groups = pc.binary_join_element_wise(
            locations.column("partition"), locations.column("file_id"), _SEP
        )
        dictionary_groups = arrays.one_array(groups).dictionary_encode()
        names = [text.split(_SEP) for text in dictionary_groups.dictionary.to_pylist()]
        codes = dictionary_groups.indices.take(at.drop_null()).to_numpy().astype(np.int64)
        return positions, [FileGroupId(PartitionPath(p), FileId(f)) for p, f in names], codes


def _find_newer(
    snapshot: Snapshot,
    incoming: Incoming,
    slices: Sequence[FileSlice],
    matches: Matches,
    engine: Engine,
) -> Flags:
    """Which of the matches in other partitions are of stored rows that are newer."""
    rule = snapshot.ref.properties.merge
    newer = np.zeros(len(matches.rows), bool)
    away = np.flatnonzero(matches.alive & ~matches.in_own_partition)
    ordering = merge.ordering_columns(incoming.rows, rule)
    read = build_scan_rule(snapshot, columns=[RECORD_KEY, *ordering_roots(snapshot.schema, rule)])
    entries_by_slice = _positions_by_code(matches.slices[away], away)
    tasks = []
    for number, entries in entries_by_slice.items():
        rows = pa.array(matches.rows[entries])
        (slice_read,) = slice_reads(snapshot, read, [slices[number]])
        values = tuple(column.take(rows) for column in ordering)
        tasks.append(_Compare(slice_read, incoming.keys.take(rows), values))
    for entries, are_newer in zip(
        entries_by_slice.values(), engine.map(are_stored_newer, tasks), strict=True
    ):
        newer[entries] = are_newer
    return newer


@dataclass(frozen=True, slots=True)
class _Compare:
    """A slice, keys that live in it, and the ordering values of the incoming rows."""

    read: SliceReadTask
    keys: pa.Array
    ordering: tuple[pa.Array, ...]


def are_stored_newer(task: _Compare) -> Flags:
    """For each key, whether the stored row is newer than the incoming one: what engines run."""
    stored_rows = read_slice(task.read)
    at = pc.index_in(task.keys, value_set=arrays.one_array(stored_rows.column(RECORD_KEY)))
    older = [c.take(at) for c in merge.ordering_columns(stored_rows, task.read.rule.merge)]
    return arrays.are_greater(older, task.ordering)


def ordering_roots(schema: pa.Schema, rule: MergeRule) -> list[str]:
    """The columns that hold the ordering fields, which may be inside structs."""
    fields = rule.ordering_fields if rule.by_event_time else ()
    return list(dict.fromkeys(f if f in schema.names else f.split(".")[0] for f in fields))


def _locate_targets(index: Index, slices: Sequence[FileSlice], targets: Targets) -> LocatedRows:
    """The destinations of rows whose keys were found."""
    destinations = list(index.destinations(slices))
    goes = ~targets.deletes & (targets.slices != NEW_FILE_GROUP)
    by_slice = _positions_by_code(targets.slices[goes], targets.rows[goes])
    away = _positions_by_code(targets.slices[targets.deletes], targets.rows[targets.deletes])
    return LocatedRows(
        {destinations[number]: np.sort(rows) for number, rows in by_slice.items()},
        {destinations[number]: np.sort(rows) for number, rows in away.items()},
    )


def _add_new_rows(located_rows: LocatedRows, incoming: Incoming, targets: Targets) -> LocatedRows:
    """Rows without a target are new in their partition."""
    is_new = np.ones(incoming.num_rows, bool)
    is_new[targets.dropped_rows] = False
    for rows in located_rows.rows.values():
        is_new[rows] = False
    new = np.flatnonzero(is_new)
    by_partition = positions_by_text(incoming.partitions.take(pa.array(new)))
    fresh = {Destination(PartitionPath(p)): new[rows] for p, rows in by_partition.items()}
    return replace(located_rows, rows={**located_rows.rows, **fresh})


def _locate_by_label(
    index: Index, incoming: Incoming, places: Sequence[PartitionPath | None]
) -> dict[Destination, Positions]:
    """Rows by the label of their key, in each of these places; None is the row's own partition."""
    labels = index.labels(incoming.keys).dictionary_encode()
    texts, codes = labels.dictionary.to_pylist(), labels.indices.to_numpy()
    rows_by_destination: dict[Destination, Positions] = {}
    every = np.arange(incoming.num_rows, dtype=np.int64)
    for place in places:
        here = {place: every} if place is not None else positions_by_text(incoming.partitions)
        for partition, rows in here.items():
            for code, mine in _positions_by_code(codes[rows], rows).items():
                rows_by_destination[Destination(PartitionPath(partition), texts[code])] = mine
    return rows_by_destination


def positions_by_text(texts: pa.Array) -> dict[str, Positions]:
    """The positions of each distinct text, in order."""
    dictionary_texts = texts.dictionary_encode()
    codes = dictionary_texts.indices.to_numpy()
    names = dictionary_texts.dictionary.to_pylist()
    every = np.arange(len(codes), dtype=np.int64)
    return {names[code]: rows for code, rows in _positions_by_code(codes, every).items()}


def _positions_by_code(codes: npt.NDArray[Any], positions: Positions) -> dict[int, Positions]:
    """Positions by a code each, in order."""
    highest = int(codes.max(initial=0))
    if highest == 0:
        return {0: positions} if len(codes) else {}
    # Numpy sorts numbers of 16 bits several times as fast.
    order = np.argsort(codes.astype(np.min_scalar_type(highest), copy=False), kind="stable")
    unique_codes, starts = np.unique(codes[order], return_index=True)
    shares = np.split(positions[order], starts[1:]) if len(unique_codes) else []
    return dict(zip(unique_codes.tolist(), shares, strict=True))


# -- routing rows to file groups ----------------------------------------------------------------


@dataclass(frozen=True)
class RoutedWrite:
    """A planned write, and the rows of each file group by the number of its write."""

    assignment: Assignment
    changes: Mapping[int, Changes]


def route_rows(
    target: WriteTarget,
    operation: OperationType,
    schema: pa.Schema,
    incoming: Incoming,
    located_rows: LocatedRows,
) -> RoutedWrite:
    """Share located rows out to the file groups that are written."""
    rule = target.ref.properties.merge
    if operation is OperationType.DELETE:
        changes = deletes_of(incoming.rows, incoming.keys, schema, rule)
    else:
        changes = upserts_of(incoming.rows, incoming.keys, rule)
    return route_changes(target, operation, schema, changes, located_rows)


def route_changes(
    target: WriteTarget,
    operation: OperationType,
    schema: pa.Schema,
    changes: Changes,
    located_rows: LocatedRows,
) -> RoutedWrite:
    """The same for changes, which may be of both kinds."""
    rule = target.ref.properties.merge
    if operation is not OperationType.DELETE and changes.is_delete.any():
        # A row that is marked as deleted, and that nobody has, is no row.
        present = target.index.destinations(target.snapshot.slices()).keys()
        located_rows = located_rows.without_new(changes.is_delete, present)
    assignment, groups_and_routes = assign(target, operation, schema, located_rows.counts)
    leaving = located_rows.route_leaving(groups_and_routes.routes)
    changes_by_write: dict[int, Changes] = {}
    for write, rows in located_rows.route(groups_and_routes.routes).items():
        changes_by_write[write] = merge.take(changes, rows)
        if len(leaving[write]):
            keys = changes.keys.take(pa.array(leaving[write]))
            leaving_keys = merge.deletes(keys, changes.rows.schema, rule)
            changes_by_write[write] = merge.collapse([leaving_keys, changes_by_write[write]])
    return RoutedWrite(assignment, changes_by_write)


def upserts_of(rows: pa.Table, keys: pa.Array, rule: MergeRule) -> Changes:
    """Rows in the table's schema as changes that write them."""
    return merge.upserts(rows.append_column(RECORD_KEY, keys), keys, rule)


def deletes_of(rows: pa.Table, keys: pa.Array, schema: pa.Schema, rule: MergeRule) -> Changes:
    """Keys as changes that delete them; ordering values count where the rows have them."""
    ordering = merge.ordering_columns(rows, rule) if merge.has_ordering(rows.schema, rule) else ()
    row_schema = schema.append(pa.field(RECORD_KEY, pa.string()))
    return merge.deletes(keys, row_schema, rule, ordering)
