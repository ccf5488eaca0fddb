"""The write operations on Arrow tables: each a straight line from rows to a commit.

    prepare -> locate -> plan -> execute (begin, handles, finalize, commit)

Spark takes the same line with other code for the first three steps, and runs the handles on its
executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.key import Key
from hoodoo.config.write import COMBINE_BEFORE_INSERT, COMBINE_BEFORE_UPSERT
from hoodoo.engine.base import Engine
from hoodoo.errors import InputError
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.model.paths import PartitionPath
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot, take_snapshot
from hoodoo.table.writable import refuse_unwritable
from hoodoo.write.bucketed import check_buckets
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases, execute, local_stage
from hoodoo.write.locate import locate
from hoodoo.write.plan import deletes, plan_inserts, plan_updates, upserts
from hoodoo.write.prepare import Incoming, checked_table, combine, prepare, prepare_deletes
from hoodoo.write.work import Work, groups_by_partition, has_global_keys


def insert(ref: TableRef, rows: object, engine: Engine, *, bulk: bool = False) -> CommitResult:
    """Add rows without looking for their keys; bulk inserts leave existing files alone."""
    operation = OperationType.BULK_INSERT if bulk else OperationType.INSERT
    phases = Phases(ref.env)
    with phases.timed("prepare"):
        snapshot, incoming, schema = _prepared(ref, rows, COMBINE_BEFORE_INSERT)
    with phases.timed("assign"):
        candidates = [] if bulk else snapshot.slices()
        planned = plan_inserts(operation, snapshot, incoming, schema, candidates)
    return execute(ref, planned.work, local_stage(planned, engine), engine, phases)


def upsert(ref: TableRef, rows: object, engine: Engine) -> CommitResult:
    """Update rows whose keys are there, add the others."""
    phases = Phases(ref.env)
    with phases.timed("prepare"):
        snapshot, incoming, schema = _prepared(ref, rows, COMBINE_BEFORE_UPSERT)
        if has_global_keys(ref):
            incoming = combine(incoming, ref.properties.merge, across_partitions=True)
    with phases.timed("locate"):
        located = locate(snapshot, incoming, engine)
    with phases.timed("assign"):
        changes = upserts(ref, incoming)
        planned = plan_updates(OperationType.UPSERT, snapshot, incoming, schema, located, changes)
    return execute(ref, planned.work, local_stage(planned, engine), engine, phases)


def delete(ref: TableRef, keys: object, engine: Engine) -> CommitResult:
    """Delete rows by key: a table with the key columns, or a list of record keys.

    Without partition columns the keys are looked for in every partition. On a table ordered by
    event time, deletes that bring the ordering column only delete rows that are not newer.
    """
    refuse_unwritable(ref)
    phases = Phases(ref.env)
    with phases.timed("prepare"):
        snapshot = take_snapshot(ref)
        check_buckets(snapshot)
        schema = without_meta_fields(snapshot.schema)
        incoming, in_all_partitions = prepare_deletes(ref, keys, schema)
        in_all_partitions = in_all_partitions or has_global_keys(ref)
    with phases.timed("locate"):
        located = locate(
            snapshot, incoming, engine, in_all_partitions=in_all_partitions, only_live=True
        )
        located = replace(located, nowhere=located.nowhere[:0])  # absent keys need no delete
    with phases.timed("assign"):
        changes = deletes(ref, incoming, schema)
        planned = plan_updates(OperationType.DELETE, snapshot, incoming, schema, located, changes)
    return execute(ref, planned.work, local_stage(planned, engine), engine, phases)


def overwrite(ref: TableRef, rows: object, engine: Engine, *, whole: bool = False) -> CommitResult:
    """Replace all rows of the partitions that occur in `rows`, or of the whole table."""
    operation = OperationType.INSERT_OVERWRITE_TABLE if whole else OperationType.INSERT_OVERWRITE
    phases = Phases(ref.env)
    with phases.timed("prepare"):
        snapshot, incoming, schema = _prepared(ref, rows, COMBINE_BEFORE_INSERT)
    with phases.timed("assign"):
        touched = None if whole else frozenset(pc.unique(incoming.partitions).to_pylist())
        replaced = groups_by_partition(snapshot, touched)
        planned = plan_inserts(operation, snapshot, incoming, schema, [], replaced, touched)
    return execute(ref, planned.work, local_stage(planned, engine), engine, phases)


def delete_partitions(ref: TableRef, partitions: Sequence[str], engine: Engine) -> CommitResult:
    """Take all rows of these partitions out."""
    refuse_unwritable(ref)
    if isinstance(partitions, str) or not all(isinstance(p, str) for p in partitions):
        raise InputError("delete_partitions takes a list of partition paths, such as ['city=sf']")
    phases = Phases(ref.env)
    with phases.timed("assign"):
        snapshot = take_snapshot(ref)
        places = frozenset(map(PartitionPath, partitions))
        replaced = groups_by_partition(snapshot, places)
        unknown = sorted(places - set(replaced))
        if unknown:
            raise InputError(f"no such partition: {', '.join(map(repr, unknown))}")
        schema = without_meta_fields(snapshot.schema)
        work = Work(
            OperationType.DELETE_PARTITION,
            snapshot,
            schema,
            replaced=replaced,
            overwrites=places,
        )
    return execute(ref, work, lambda _: (), engine, phases)


def _prepared(
    ref: TableRef, rows: object, combines: Key[bool]
) -> tuple[Snapshot, Incoming, pa.Schema]:
    """The table as it is; rows to write, one per key if the setting says so; their schema."""
    refuse_unwritable(ref)
    table = checked_table(rows)
    snapshot = take_snapshot(ref)
    check_buckets(snapshot)
    incoming, schema = prepare(ref, table, snapshot.schema)
    if ref.config.get(combines):
        incoming = combine(incoming, ref.properties.merge)
    return snapshot, incoming, schema
