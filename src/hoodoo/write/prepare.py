"""Rows as users give them -> rows as the table stores them, with keys and partition paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS, RECORD_KEY, without_meta_fields
from hoodoo.format.schema_types import normalise
from hoodoo.model.merge import MergeMode, MergeRule
from hoodoo.rows import merge
from hoodoo.rows.conform import conform, evolve
from hoodoo.rows.keys import has_fields, partition_paths, record_keys, require_fields
from hoodoo.rows.text import refuse_invalid_text
from hoodoo.table.ref import TableRef
from hoodoo.write.partitions import refuse_unusable_partitions

COMMIT_TIME = MergeRule(MergeMode.COMMIT_TIME_ORDERING)


@dataclass(frozen=True, slots=True)
class Incoming:
    """Rows to write in the table's schema (no meta columns), and where they belong."""

    rows: pa.Table
    keys: pa.Array
    partitions: pa.Array

    @property
    def num_rows(self) -> int:
        return len(self.keys)

    def take(self, positions: pa.Array) -> Incoming:
        return Incoming(
            self.rows.take(positions), self.keys.take(positions), self.partitions.take(positions)
        )


def check_table(rows: object) -> pa.Table:
    """The input as a table with distinct column names, valid text, and without meta columns."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise InputError(f"rows must be a pyarrow.Table, not {type(rows).__name__}")
    refuse_duplicate_names(rows.column_names)
    # Rows read from a table carry its meta columns; they are made anew for each write.
    rows = rows.drop_columns([name for name in rows.column_names if name in META_FIELDS])
    refuse_invalid_text(rows)
    return rows


def refuse_duplicate_names(names: Iterable[str]) -> None:
    """Fail if two columns have the same name but for case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(f"duplicate column name (case-insensitive): {name!r}")
        seen.add(name.lower())


def evolve_schema(ref: TableRef, incoming: pa.Schema, table_schema: pa.Schema) -> pa.Schema:
    """The table's schema once rows of the incoming schema are written.

    Fails if they lack a key, partition or ordering column: it would count as null.
    """
    keys, order = ref.properties.keys, ref.properties.merge
    require_fields(incoming, (*keys.record_fields, *keys.partition_fields, *order.ordering_fields))
    present = without_meta_fields(table_schema)
    schema = evolve(present, incoming) if len(present) else incoming
    merge.refuse_unfit_flag(schema, order)
    return schema


def schema_of_deletes(ref: TableRef, incoming: pa.Schema, table_schema: pa.Schema) -> pa.Schema:
    """The columns of keys to delete that count: of key, partition and ordering fields."""
    keys, order = ref.properties.keys, ref.properties.merge
    require_fields(incoming, keys.record_fields)
    fields = (*keys.record_fields, *keys.partition_fields, *order.ordering_fields)
    roots = {name for field in fields for name in (field, field.split(".")[0])}
    names = [name for name in incoming.names if name in table_schema.names and name in roots]
    stored = pa.schema([table_schema.field(name) for name in names])
    nullable = pa.schema([field.with_nullable(True) for field in stored])
    evolve(nullable, pa.schema([incoming.field(name) for name in names]))
    return stored


def prepare(ref: TableRef, rows: pa.Table, table_schema: pa.Schema) -> tuple[Incoming, pa.Schema]:
    """Rows in the table's schema with keys and partition paths, and that schema, evolved.

    Whatever is wrong with the rows is found here, before anything is written.
    """
    keys_rule, merge_rule = ref.properties.keys, ref.properties.merge
    schema = evolve_schema(ref, normalise(rows.schema), table_schema)
    rows = conform(rows, schema)
    keys = merge.one_array(record_keys(rows, keys_rule))
    partitions = merge.one_array(partition_paths(rows, keys_rule))
    refuse_unusable_partitions(ref, pc.unique(partitions).to_pylist())
    for ordering in merge.ordering_columns(rows, merge_rule):
        if ordering.null_count:
            fields = ",".join(merge_rule.ordering_fields)
            raise InputError(f"ordering column {fields} is null in {ordering.null_count} rows")
    return Incoming(rows, keys, partitions), schema


def combine(incoming: Incoming, rule: MergeRule, *, across_partitions: bool = False) -> Incoming:
    """One row per key and partition, or per key: the one that wins by the table's ordering."""
    identity = incoming.keys
    if not across_partitions:
        identity = pc.binary_join_element_wise(incoming.partitions, incoming.keys, "\0")
    position = pa.table({"position": np.arange(incoming.num_rows, dtype=np.int64)})
    ordering = merge.ordering_columns(incoming.rows, rule)
    none = np.zeros(incoming.num_rows, bool)
    winners = merge.collapse([merge.Changes(identity, ordering, none, none, position)])
    if winners.num_rows == incoming.num_rows:
        return incoming
    return incoming.take(merge.one_array(winners.rows.column("position")))


def prepare_deletes(
    ref: TableRef, rows_or_keys: object, schema: pa.Schema
) -> tuple[Incoming, bool]:
    """Keys to delete, one each, and whether to look for them in all partitions.

    A table may hold, beside the key columns, the partition columns and the ordering columns;
    other columns are ignored.
    """
    rule = ref.properties.keys
    if isinstance(rows_or_keys, pa.Table | pa.RecordBatch):
        rows = check_table(rows_or_keys)
    else:
        rows = _keys_to_table(ref, rows_or_keys, schema)
        if RECORD_KEY in rows.column_names:
            keys = merge.one_array(rows.column(RECORD_KEY))
            return Incoming(rows, keys, pa.repeat("", len(keys))), True
    stored = schema_of_deletes(ref, normalise(rows.schema), schema)
    rows = conform(rows.select(stored.names), stored)
    keys = merge.one_array(record_keys(rows, rule))
    has_partitions = has_fields(rows.schema, rule.partition_fields)
    if has_partitions:
        partitions = merge.one_array(partition_paths(rows, rule))
    else:
        partitions = pa.repeat("", len(keys))
    incoming = Incoming(rows, keys, partitions)
    rule_of_order = ref.properties.merge
    order = rule_of_order if merge.has_ordering(rows.schema, rule_of_order) else COMMIT_TIME
    return combine(incoming, order), rule.is_partitioned and not has_partitions


def _keys_to_table(ref: TableRef, keys: object, schema: pa.Schema) -> pa.Table:
    """Keys given as a list: values of the key column, or ready-made texts of composite keys."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        keys = keys.to_pylist()
    if isinstance(keys, str):
        raise InputError(f"{keys!r} is no list of keys; a condition is where={keys!r}")
    if not isinstance(keys, Sequence):
        raise InputError(
            f"keys to delete must be a pyarrow.Table or a list, not {type(keys).__name__}"
        )
    rule = ref.properties.keys
    name = rule.record_fields[0]
    try:
        if rule.has_composite_keys:
            return pa.table({RECORD_KEY: pc.unique(pa.array(keys, pa.string()))})
        return pa.table({name: pa.array(keys, schema.field(name).type)})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"these keys do not fit column {name}: {error}") from None
