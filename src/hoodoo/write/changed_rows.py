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

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.index.matches import Flags, Positions
from hoodoo.model.commit import OperationType
from hoodoo.model.file_group_write import Destination
from hoodoo.model.files import FileSlice
from hoodoo.rows import merge
from hoodoo.rows.keys import partition_paths, record_keys
from hoodoo.table.read import Selection, read_rule
from hoodoo.write.assignment import Target
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases, execute, local_stage
from hoodoo.write.locate import LocatedRows, locate, locate_new
from hoodoo.write.partitions import refuse_unusable_partitions
from hoodoo.write.plan import PlannedWrite, plan_changes, upserts_of
from hoodoo.write.prepare import Incoming

_NAMED = 3


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
    """What becomes of rows: the `stored` ones are replaced by `updated`, or, at `deleted`, deleted.

    `updated` has a row for each that is not deleted, in order; `added` are new ones. Both have the
    table's columns. `are_new`: no key of `added` can be in the table.
    """

    stored: StoredRows
    deleted: Flags
    updated: pa.Table
    added: pa.Table
    are_new: bool = False

    @property
    def is_nothing(self) -> bool:
        return not (self.stored.rows.num_rows or self.added.num_rows)


def write_changed(
    target: Target, changed: ChangedRows, engine: Engine, phases: Phases
) -> CommitResult:
    """Write all changes as one commit.

    Needs: `target` is the snapshot in which the rows were read.
    """
    with phases.timed("prepare"):
        refuse_changed_keys(target, changed)
        moved = _moved(target, changed)
        new = _new_rows(target, changed, moved, engine)
    with phases.timed("locate"):
        located_stored = _locate_stored(target, changed.stored, engine)
        moves = bool(moved.any())
        are_new = changed.are_new and not moves
        located_new = _locate_new(target, new, engine, moves=moves, are_new=are_new)
    with phases.timed("assign"):
        planned = _plan(target, changed, moved, new, located_stored, located_new)
    stage = local_stage(planned, engine, phases)
    done = execute(target.ref, planned.assignment, stage, engine, phases)
    return with_counts(
        done,
        inserted=changed.added.num_rows,
        updated=changed.updated.num_rows,
        deleted=int(changed.deleted.sum()),
    )


def with_counts(done: CommitResult, *, inserted: int, updated: int, deleted: int) -> CommitResult:
    """The result in the user's terms: a row that moves is updated, and logs know no better."""
    stats = replace(done.stats, inserted=inserted, updated=updated, deleted=deleted)
    return replace(done, stats=stats)


def refuse_changed_keys(target: Target, changed: ChangedRows) -> None:
    """Fail if an update changes a record key, or makes a row older than the one it replaces."""
    properties = target.ref.properties
    old = changed.stored.rows.filter(pa.array(~changed.deleted))
    keys = record_keys(changed.updated, properties.keys)
    if not keys.equals(old.column(RECORD_KEY).cast(pa.string())):
        fields = ", ".join(properties.keys.record_fields)
        raise InputError(
            f"an update cannot change the record key ({fields}): "
            "delete the row and insert it with its new key"
        )
    for rows in (changed.updated, changed.added):
        for ordering in merge.ordering_columns(rows, properties.merge):
            if ordering.null_count:
                names = ",".join(properties.merge.ordering_fields)
                raise InputError(f"ordering column {names} is null in {ordering.null_count} rows")
    older = merge.ordering_columns(old, properties.merge)
    newer = merge.ordering_columns(changed.updated, properties.merge)
    if older and (late := int(merge.are_greater(older, newer).sum())):
        raise InputError(late_message(properties.merge.ordering_fields, late))


def late_message(fields: Sequence[str], count: int) -> str:
    """Why a row that is older than the stored one is not taken for an update."""
    name = ",".join(fields)
    return (
        f"{count} rows would get a smaller value of the ordering column {name} than they have: "
        f"the stored rows would win. Leave {name} as it is, or update only where it grows"
    )


def _moved(target: Target, changed: ChangedRows) -> Flags:
    """Which of the updated rows go to another partition."""
    rule = target.ref.properties.keys
    old = changed.stored.rows.filter(pa.array(~changed.deleted))
    if not rule.is_partitioned or not changed.updated.num_rows:
        return np.zeros(changed.updated.num_rows, bool)
    before, after = partition_paths(old, rule), partition_paths(changed.updated, rule)
    return merge.to_flags(pc.not_equal(before, after))


def _new_rows(target: Target, changed: ChangedRows, moved: Flags, engine: Engine) -> Incoming:
    """Rows that come to where they were not: added ones, and those that move."""
    ref, rule = target.ref, target.ref.properties.keys
    coming = changed.updated.filter(pa.array(moved))
    rows = pa.concat_tables([coming, changed.added])
    keys = merge.one_array(record_keys(rows, rule))
    partitions = merge.one_array(partition_paths(rows, rule))
    refuse_unusable_partitions(ref, pc.unique(partitions).to_pylist())
    incoming = Incoming(rows, keys, partitions)
    _refuse_repeated_keys(incoming, is_global=target.index.is_global)
    if moved.any() or not changed.are_new:
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
    repeated = ids.take(pa.array([], pa.int64()))
    if len(counts) < len(ids):
        repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise InputError(f"several rows would have the same record key: {_name_some(repeated)}")


def _refuse_taken_keys(target: Target, incoming: Incoming, engine: Engine) -> None:
    """Fail if a key that comes is in the table already, in its partition or, if global, at all."""
    if not incoming.num_rows:
        return
    is_global = target.index.is_global
    places = set(incoming.partitions.to_pylist())
    slices = [s for s in target.snapshot.slices() if is_global or s.group.partition in places]
    rule = read_rule(target.snapshot, columns=[RECORD_KEY, PARTITION_PATH])
    stored = Selection(target.snapshot, rule, tuple(slices)).read(engine)
    there = _identities(
        *(merge.one_array(stored.column(n)) for n in (RECORD_KEY, PARTITION_PATH)),
        is_global=is_global,
    )
    mine = _identities(incoming.keys, incoming.partitions, is_global=is_global)
    taken = mine.filter(pc.is_in(mine, value_set=there))
    if len(taken):
        raise InputError(f"these record keys are in the table already: {_name_some(taken)}")


def _name_some(keys: pa.Array) -> str:
    texts = [text.replace("\0", "/") for text in keys.slice(0, _NAMED).to_pylist()]
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return ", ".join(map(repr, texts)) + more


def _locate_stored(target: Target, stored: StoredRows, engine: Engine) -> LocatedRows:
    """The file groups where the rows were read; their keys are looked for if that is not known."""
    if stored.places is None:
        columns = (RECORD_KEY, PARTITION_PATH)
        keys, places = (merge.one_array(stored.rows.column(n).cast(pa.string())) for n in columns)
        incoming, anywhere = Incoming(stored.rows, keys, places), target.index.is_global
        return locate(target, incoming, engine, deletes=True, in_all_partitions=anywhere)
    rows: dict[Destination, Positions] = {}
    for number, destination in enumerate(target.index.destinations(stored.slices)):
        here = np.flatnonzero(stored.places == number)
        if len(here):
            rows[destination] = here
    return LocatedRows(rows, {})


def _locate_new(
    target: Target, new: Incoming, engine: Engine, *, moves: bool, are_new: bool
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


def keeps_partitions(target: Target) -> bool:
    """Whether the index would send rows that move back to where their keys are."""
    return target.index.is_global and not getattr(target.index, "moves", True)


def _plan(
    target: Target,
    changed: ChangedRows,
    moved: Flags,
    new: Incoming,
    located_stored: LocatedRows,
    located_new: LocatedRows,
) -> PlannedWrite:
    """One plan of: rows that change where they are, keys to delete, rows that come; in this order.

    Deletes bring no ordering value, so that they win over whatever was stored before.
    """
    rule, schema = target.ref.properties.merge, target.schema
    leaves = changed.deleted.copy()
    leaves[np.flatnonzero(~changed.deleted)[moved]] = True
    stored_keys = merge.one_array(changed.stored.rows.column(RECORD_KEY).cast(pa.string()))
    staying = changed.updated.filter(pa.array(~moved))
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
    return plan_changes(target, operation, schema, changes, LocatedRows(rows, {}))
