"""The write operations on Arrow tables: each a straight line from rows to a commit.

    prepare -> locate -> assign -> execute (begin, handles, finalize, commit)

Spark takes the same line: it brings rows, or keys, to the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hoodoo.config.key import Key
from hoodoo.config.write import COMBINE_BEFORE_INSERT, COMBINE_BEFORE_UPSERT
from hoodoo.engine.base import Engine
from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType
from hoodoo.model.paths import PartitionPath
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import refuse_unwritable
from hoodoo.write.assignment import Assignment, Target, groups_by_partition
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases, execute, local_stage
from hoodoo.write.locate import locate, locate_new
from hoodoo.write.plan import plan
from hoodoo.write.prepare import checked_table, combine, prepare, prepare_deletes

_COMBINE_KEYS: dict[OperationType, Key[bool]] = {OperationType.UPSERT: COMBINE_BEFORE_UPSERT}


def upsert(ref: TableRef, rows: object, engine: Engine) -> CommitResult:
    """Update rows whose keys are there, add the others."""
    return _write_rows(ref, rows, engine, OperationType.UPSERT)


def insert(ref: TableRef, rows: object, engine: Engine, *, bulk: bool = False) -> CommitResult:
    """Add rows without looking for their keys; bulk inserts leave existing files alone."""
    return _write_rows(
        ref, rows, engine, OperationType.BULK_INSERT if bulk else OperationType.INSERT
    )


def overwrite(ref: TableRef, rows: object, engine: Engine, *, whole: bool = False) -> CommitResult:
    """Replace all rows of the partitions that occur in `rows`, or of the whole table."""
    operation = OperationType.INSERT_OVERWRITE_TABLE if whole else OperationType.INSERT_OVERWRITE
    return _write_rows(ref, rows, engine, operation)


def _write_rows(
    ref: TableRef, rows: object, engine: Engine, operation: OperationType
) -> CommitResult:
    refuse_unwritable(ref)
    phases, by_key = Phases(ref.env), operation is OperationType.UPSERT
    with phases.timed("prepare"):
        table = checked_table(rows)
        target = Target.load(ref)
        incoming, schema = prepare(ref, table, target.snapshot.schema)
        is_global = by_key and target.index.is_global
        if is_global or ref.config.get(_COMBINE_KEYS.get(operation, COMBINE_BEFORE_INSERT)):
            incoming = combine(incoming, ref.properties.merge, across_partitions=is_global)
    with phases.timed("locate"):
        located = locate(target, incoming, engine) if by_key else locate_new(target.index, incoming)
    with phases.timed("assign"):
        planned = plan(target, operation, schema, incoming, located)
    return execute(ref, planned.assignment, local_stage(planned, engine), engine, phases)


def delete(ref: TableRef, keys: object, engine: Engine) -> CommitResult:
    """Delete rows by key: a table with the key columns, or a list of record keys.

    Without partition columns the keys are looked for in every partition. On a table ordered by
    event time, deletes that bring the ordering column only delete rows that are not newer.
    """
    refuse_unwritable(ref)
    phases = Phases(ref.env)
    with phases.timed("prepare"):
        target = Target.load(ref)
        incoming, in_all_partitions = prepare_deletes(ref, keys, target.schema)
        in_all_partitions = in_all_partitions or target.index.is_global
    with phases.timed("locate"):
        located = locate(
            target, incoming, engine, deletes=True, in_all_partitions=in_all_partitions
        )
    with phases.timed("assign"):
        planned = plan(target, OperationType.DELETE, target.schema, incoming, located)
    return execute(ref, planned.assignment, local_stage(planned, engine), engine, phases)


def delete_partitions(ref: TableRef, partitions: Sequence[str], engine: Engine) -> CommitResult:
    """Take all rows of these partitions out."""
    refuse_unwritable(ref)
    if isinstance(partitions, str) or not all(isinstance(p, str) for p in partitions):
        raise InputError("delete_partitions takes a list of partition paths, such as ['city=sf']")
    phases = Phases(ref.env)
    with phases.timed("assign"):
        target = Target.load(ref)
        places = frozenset(map(PartitionPath, partitions))
        replaced = groups_by_partition(target.snapshot, places)
        unknown = sorted(places - set(replaced))
        if unknown:
            raise InputError(f"no such partition: {', '.join(map(repr, unknown))}")
        assignment = Assignment(
            OperationType.DELETE_PARTITION,
            target.snapshot,
            target.schema,
            replaced=replaced,
            overwrites=places,
        )
    return execute(ref, assignment, lambda _: (), engine, phases)
