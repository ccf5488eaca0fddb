"""Rows that a write changes, deletes and adds -> one plan, and its commit.

The rows were read in the snapshot that the plan is made on: whoever writes to their file groups
meanwhile is found by the conflict check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileSlice
from hoodoo.read.scan import ScanSelection, build_scan_rule
from hoodoo.rows import arrays, merge
from hoodoo.rows.keys import partition_paths, record_keys
from hoodoo.runtime.engine import Engine
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer, execute, write_files_locally
from hoodoo.write.index.destinations import Destination
from hoodoo.write.index.matches import Flags, Positions
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import (
    LocatedRows,
    RoutedWrite,
    locate,
    locate_new,
    route_changes,
    upserts_of,
)
from hoodoo.write.planning.prepare import Incoming, refuse_unusable_partitions

_MOST_KEYS_IN_MESSAGE = 3


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows as they were read, with meta columns; `places` numbers the slice of each, if known."""

    rows: pa.Table
    slices: Sequence[FileSlice] = ()
    places: Positions | None = None

    def take(self, positions: Positions) -> StoredRows:
        """The rows at these positions."""
        places = None if self.places is None else self.places[positions]
        return StoredRows(self.rows.take(pa.array(positions)), self.slices, places)


@dataclass(frozen=True)
class ChangedRows:
    """What becomes of `stored_rows`: `is_deleted` marks those that go; the others are replaced.

    `updated_rows` has a row for each that is not deleted, in order. `new_rows` are added. Both
    have the table's columns. `are_new`: no key of `new_rows` can be in the table.
    """

    stored_rows: StoredRows
    is_deleted: Flags
    updated_rows: pa.Table
    new_rows: pa.Table
    are_new: bool = False

    @property
    def is_nothing(self) -> bool:
        return not (self.stored_rows.rows.num_rows or self.new_rows.num_rows)


def write_changed(
    target: WriteTarget, changed_rows: ChangedRows, engine: Engine, phases: PhaseTimer
) -> CommitResult:
    """Write all changes as one commit.

    Needs: `target` is the snapshot in which the rows were read.
    """
    with phases.timed("prepare"):
        refuse_changed_keys(target, changed_rows)
        is_moved = _moved(target, changed_rows)
        new = _new_rows(target, changed_rows, is_moved, engine)
    with phases.timed("locate"):
        located_stored = _locate_stored(target, changed_rows.stored_rows, engine)
        moves = bool(is_moved.any())
        are_new = changed_rows.are_new and not moves
        located_new = _locate_new(target, new, engine, moves=moves, are_new=are_new)
    with phases.timed("assign"):
        routed_write = _plan(target, changed_rows, is_moved, new, located_stored, located_new)
    stage = write_files_locally(routed_write, engine, phases)
    result = execute(target.ref, routed_write.assignment, stage, engine, phases)
    return with_counts(
        result,
        inserts=changed_rows.new_rows.num_rows,
        updates=changed_rows.updated_rows.num_rows,
        deletes=int(changed_rows.is_deleted.sum()),
    )


def with_counts(result: CommitResult, *, inserts: int, updates: int, deletes: int) -> CommitResult:
    """The result in the user's terms: a row that moves is updated, and logs know no better."""
    stats = replace(result.stats, inserted=inserts, updated=updates, deleted=deletes)
    return replace(result, stats=stats)


def refuse_changed_keys(target: WriteTarget, changed_rows: ChangedRows) -> None:
    """Fail if an update changes a record key, or makes a row older than the one it replaces."""
    properties = target.ref.properties
    old = changed_rows.stored_rows.rows.filter(pa.array(~changed_rows.is_deleted))
    keys = record_keys(changed_rows.updated_rows, properties.keys)
    if not keys.equals(old.column(RECORD_KEY).cast(pa.string())):
        fields = ", ".join(properties.keys.record_fields)
        raise InputError(
            f"an update cannot change the record key ({fields}): "
            "delete the row and insert it with its new key"
        )
    for rows in (changed_rows.updated_rows, changed_rows.new_rows):
        for ordering in merge.ordering_columns(rows, properties.merge):
            if ordering.null_count:
                names = ",".join(properties.merge.ordering_fields)
                raise InputError(f"ordering column {names} is null in {ordering.null_count} rows")
    older = merge.ordering_columns(old, properties.merge)
    newer = merge.ordering_columns(changed_rows.updated_rows, properties.merge)
    if older and (late := int(arrays.are_greater(older, newer).sum())):
        raise InputError(late_message(properties.merge.ordering_fields, late))


def late_message(fields: Sequence[str], count: int) -> str:
    """Why a row that is older than the stored one is not taken for an update."""
    name = ",".join(fields)
    return (
        f"{count} rows would get a smaller value of the ordering column {name} than they have: "
        f"the stored rows would win. Leave {name} as it is, or update only where it grows"
    )


def _moved(target: WriteTarget, changed_rows: ChangedRows) -> Flags:
    """Which of the updated rows go to another partition."""
    rule = target.ref.properties.keys
    old = changed_rows.stored_rows.rows.filter(pa.array(~changed_rows.is_deleted))
    if not rule.is_partitioned or not changed_rows.updated_rows.num_rows:
        return np.zeros(changed_rows.updated_rows.num_rows, bool)
    before, after = partition_paths(old, rule), partition_paths(changed_rows.updated_rows, rule)
    return arrays.to_flags(pc.not_equal(before, after))


def _new_rows(
    target: WriteTarget, changed_rows: ChangedRows, is_moved: Flags, engine: Engine
) -> Incoming:
    """Rows that come to where they were not: added ones, and those that move."""
    ref, rule = target.ref, target.ref.properties.keys
    coming = changed_rows.updated_rows.filter(pa.array(is_moved))
    rows = pa.concat_tables([coming, changed_rows.new_rows])
    keys = arrays.one_array(record_keys(rows, rule))
    partitions = arrays.one_array(partition_paths(rows, rule))
    refuse_unusable_partitions(ref, pc.unique(partitions).to_pylist())
    incoming = Incoming(rows, keys, partitions)
    _refuse_repeated_keys(incoming, is_global=target.index.is_global)
    if is_moved.any() or not changed_rows.are_new:
        # With a global index a key that moves is in the table, and nowhere but where it leaves.
        start = len(coming) if target.index.is_global else 0
        _refuse_taken_keys(
            target, incoming.take(pa.array(np.arange(start, incoming.num_rows))), engine
        )
    return incoming


def _identities(keys: pa.Array, partitions: pa.Array, *, is_global: bool) -> pa.Array:
    return keys if is_global else pc.binary_join_element_wise(partitions, keys, "\0")


def _refuse_repeated_keys(incoming: Incoming, *, is_global: bool) -> None:
    ids = _identities(incoming.keys, incoming.partitions, is_global=is_global)
    counts = pc.value_counts(ids)
    repetitions = ids.take(pa.array([], pa.int64()))
    if len(counts) < len(ids):
        repetitions = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repetitions):
        raise InputError(f"several rows would have the same record key: {_name_some(repetitions)}")


def _refuse_taken_keys(target: WriteTarget, incoming: Incoming, engine: Engine) -> None:
    """Fail if a key that comes is in the table already, in its partition or, if global, at all."""
    if not incoming.num_rows:
        return
    is_global = target.index.is_global
    places = set(incoming.partitions.to_pylist())
    slices = [s for s in target.snapshot.slices() if is_global or s.group.partition in places]
    rule = build_scan_rule(target.snapshot, columns=[RECORD_KEY, PARTITION_PATH])
    stored_rows = ScanSelection(target.snapshot, rule, tuple(slices)).read(engine)
    there = _identities(
        *(arrays.one_array(stored_rows.column(n)) for n in (RECORD_KEY, PARTITION_PATH)),
        is_global=is_global,
    )
    mine = _identities(incoming.keys, incoming.partitions, is_global=is_global)
    duplicate_ids = mine.filter(pc.is_in(mine, value_set=there))
    if len(duplicate_ids):
        raise InputError(f"these record keys are in the table already: {_name_some(duplicate_ids)}")


def _name_some(keys: pa.Array) -> str:
    texts = [text.replace("\0", "/") for text in keys.slice(0, _MOST_KEYS_IN_MESSAGE).to_pylist()]
    more = (
        f" and {len(keys) - _MOST_KEYS_IN_MESSAGE} more"
        if len(keys) > _MOST_KEYS_IN_MESSAGE
        else ""
    )
    return ", ".join(map(repr, texts)) + more


def _locate_stored(target: WriteTarget, stored_rows: StoredRows, engine: Engine) -> LocatedRows:
    """The file groups where the rows were read; their keys are looked for if that is not known."""
    if stored_rows.places is None:
        columns = (RECORD_KEY, PARTITION_PATH)
        keys, places = (
            arrays.one_array(stored_rows.rows.column(n).cast(pa.string())) for n in columns
        )
        incoming, anywhere = Incoming(stored_rows.rows, keys, places), target.index.is_global
        return locate(target, incoming, engine, deletes=True, in_all_partitions=anywhere)
    rows: dict[Destination, Positions] = {}
    for number, destination in enumerate(target.index.destinations(stored_rows.slices)):
        here = np.flatnonzero(stored_rows.places == number)
        if len(here):
            rows[destination] = here
    return LocatedRows(rows, {})


def _locate_new(
    target: WriteTarget, new: Incoming, engine: Engine, *, moves: bool, are_new: bool
) -> LocatedRows:
    """Destinations of rows that come: none but logs keep keys that are not there any more."""
    if not new.num_rows:
        return LocatedRows({}, {})
    if moves and keeps_partitions(target):
        return locate_new(target.index, new)
    if are_new and not any(slice_.logs for slice_ in target.snapshot.slices()):
        return locate_new(target.index, new)
    # What leaves a place is among the deletes already.
    return replace(locate(target, new, engine), leaving={})


def keeps_partitions(target: WriteTarget) -> bool:
    """Whether the index would send rows that move back to where their keys are."""
    return target.index.is_global and not getattr(target.index, "moves", True)


def _plan(
    target: WriteTarget,
    changed_rows: ChangedRows,
    is_moved: Flags,
    new: Incoming,
    located_stored: LocatedRows,
    located_new: LocatedRows,
) -> RoutedWrite:
    """One plan of: rows that change where they are, keys to delete, rows that come; in this order.

    Deletes bring no ordering value, so that they win over whatever was stored before.
    """
    rule, schema = target.ref.properties.merge, target.schema
    leaves = changed_rows.is_deleted.copy()
    leaves[np.flatnonzero(~changed_rows.is_deleted)[is_moved]] = True
    stored_keys = arrays.one_array(
        changed_rows.stored_rows.rows.column(RECORD_KEY).cast(pa.string())
    )
    staying = changed_rows.updated_rows.filter(pa.array(~is_moved))
    changes = merge.concatenate(
        [
            upserts_of(staying, stored_keys.filter(pa.array(~leaves)), rule),
            merge.deletes(
                stored_keys.filter(pa.array(leaves)),
                schema.append(pa.field(RECORD_KEY, pa.string())),
                rule,
            ),
            upserts_of(new.rows, new.keys, rule),
        ]
    )
    numbers = np.empty(len(leaves), np.int64)
    numbers[~leaves] = np.arange(int((~leaves).sum()))
    numbers[leaves] = int((~leaves).sum()) + np.arange(int(leaves.sum()))
    rows = {d: np.sort(numbers[positions]) for d, positions in located_stored.rows.items()}
    for destination, positions in located_new.rows.items():
        mine = rows.get(destination, np.zeros(0, np.int64))
        rows[destination] = np.concatenate([mine, positions + len(leaves)])
    only_deletes = not (staying.num_rows or new.num_rows)
    operation = OperationType.DELETE if only_deletes else OperationType.UPSERT
    return route_changes(target, operation, schema, changes, LocatedRows(rows, {}))
