"""The write operations on Arrow tables: each a straight line from rows to a commit.

    prepare -> locate -> assign -> execute (begin, handles, finalize, commit)

Spark takes the same line: it brings rows, or keys, to the same functions. `read_input` reads what a
caller hands to a write once, ahead of it: a write may be tried again, a stream cannot be read
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hoodoo.config.key import Key
from hoodoo.config.write import COMBINE_BEFORE_INSERT, COMBINE_BEFORE_UPSERT
from hoodoo.errors import InputError
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.model.paths import PartitionPath
from hoodoo.model.progress import OnProgress
from hoodoo.rows.incoming import is_dicts, keys_to_arrow, rows_to_arrow
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer, execute, write_files_locally
from hoodoo.write.planning.assignment import Assignment, WriteTarget, groups_by_partition
from hoodoo.write.planning.locate import locate, locate_new, route_rows
from hoodoo.write.planning.prepare import check_table, combine, prepare, prepare_deletes

_COMBINE_KEYS: dict[OperationType, Key[bool]] = {OperationType.UPSERT: COMBINE_BEFORE_UPSERT}


def write(
    ref: TableRef,
    operation: OperationType,
    input_rows: Any,
    engine: Engine,
    on_progress: OnProgress | None = None,
) -> CommitResult:
    """Carry an operation out on rows, on keys to delete, or on partitions to delete.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    phases = PhaseTimer(ref.env, on_progress)
    match operation:
        case OperationType.DELETE:
            return _delete(ref, input_rows, engine, phases)
        case OperationType.DELETE_PARTITION:
            return _delete_partitions(ref, input_rows, engine, phases)
        case _:
            return _write_rows(ref, operation, input_rows, engine, phases)


def _write_rows(
    ref: TableRef, operation: OperationType, rows: object, engine: Engine, phases: PhaseTimer
) -> CommitResult:
    """Upsert, insert, or replace what is there."""
    by_key = operation is OperationType.UPSERT
    with phases.timed("prepare"):
        table = check_table(rows)
        target = WriteTarget.load(ref)
        incoming, schema = prepare(ref, table, target.snapshot.schema)
        is_global = by_key and target.index.is_global
        if is_global or ref.config.get(_COMBINE_KEYS.get(operation, COMBINE_BEFORE_INSERT)):
            incoming = combine(incoming, ref.properties.merge, across_partitions=is_global)
    with phases.timed("locate"):
        locations = (
            locate(target, incoming, engine) if by_key else locate_new(target.index, incoming)
        )
    with phases.timed("assign"):
        routed_write = route_rows(target, operation, schema, incoming, locations)
    return execute(
        ref,
        routed_write.assignment,
        write_files_locally(routed_write, engine, phases),
        engine,
        phases,
    )


def _delete(ref: TableRef, keys: object, engine: Engine, phases: PhaseTimer) -> CommitResult:
    """Delete rows by key: a table with the key columns, or a list of record keys.

    Without partition columns the keys are looked for in every partition. On a table ordered by
    event time, deletes that bring the ordering column only delete rows that are not newer.
    """
    with phases.timed("prepare"):
        target = WriteTarget.load(ref)
        incoming, in_all_partitions = prepare_deletes(ref, keys, target.schema)
        in_all_partitions = in_all_partitions or target.index.is_global
    with phases.timed("locate"):
        locations = locate(
            target, incoming, engine, deletes=True, in_all_partitions=in_all_partitions
        )
    with phases.timed("assign"):
        routed_write = route_rows(target, OperationType.DELETE, target.schema, incoming, locations)
    return execute(
        ref,
        routed_write.assignment,
        write_files_locally(routed_write, engine, phases),
        engine,
        phases,
    )


def _delete_partitions(
    ref: TableRef, partitions: Sequence[str], engine: Engine, phases: PhaseTimer
) -> CommitResult:
    """Take all rows of these partitions out."""
    if isinstance(partitions, str) or not all(isinstance(p, str) for p in partitions):
        raise InputError("delete_partitions takes a list of partition paths, such as ['city=sf']")
    with phases.timed("assign"):
        target = WriteTarget.load(ref)
        places = frozenset(map(PartitionPath, partitions))
        replaced_groups = groups_by_partition(target.snapshot, places)
        unknown = sorted(places - set(replaced_groups))
        if unknown:
            raise InputError(f"no such partition: {', '.join(map(repr, unknown))}")
        assignment = Assignment(
            OperationType.DELETE_PARTITION,
            target.snapshot,
            target.schema,
            replaced_files=replaced_groups,
            overwrites=places,
        )
    return execute(ref, assignment, lambda context, stop: (), engine, phases)


# -- input of a write ---------------------------------------------------------------------------


def read_input(ref: TableRef, operation: OperationType, rows: object) -> object:
    """Rows as an Arrow table; keys and partitions to delete as they are."""
    match operation:
        case OperationType.DELETE_PARTITION:
            return rows
        case OperationType.DELETE:
            return keys_to_arrow(rows, _schema_for(ref, rows))
        case _:
            return rows_to_arrow(rows, _schema_for(ref, rows))


def _schema_for(ref: TableRef, rows: object) -> pa.Schema | None:
    """The table's schema, if the rows have none of their own."""
    is_empty = isinstance(rows, list) and not rows
    if not is_dicts(rows) and not is_empty:
        return None
    schema = resolve_schema(ref, ref.load_timeline())
    return None if schema is None else without_meta_fields(schema)
