"""Rows as users give them -> rows as the table stores them, with keys and partition paths.

Partition paths that cannot be used are refused here, before any file is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.errors import InputError
from hoodoo.format.arrow_types import normalise
from hoodoo.format.schema import META_FIELDS, RECORD_KEY, without_meta_fields
from hoodoo.model.keys import KeyRule
from hoodoo.model.merge import MergeMode, MergeRule
from hoodoo.model.paths import META, PARTITION_METADATA
from hoodoo.rows import arrays, merge
from hoodoo.rows.conform import conform, evolve
from hoodoo.rows.incoming import refuse_invalid_text
from hoodoo.rows.keys import has_fields, partition_paths, record_keys, require_fields
from hoodoo.storage.uri import has_control_characters, parse_uri
from hoodoo.table.ref import TableRef

# -- refusing partition paths -------------------------------------------------------------------


_MOST_NAME_BYTES = 255
_MOST_FILE_BYTES = 4095
_MOST_OBJECT_BYTES = 1024
_OTHER_BYTES = 200
"""Of the path of a marker: `.hoodie/.temp`, the instant, the name of the data file."""


def refuse_unusable_partitions(ref: TableRef, partitions: Iterable[str]) -> None:
    """Fail if rows of one of these partitions could not be stored, or would never be read."""
    for path in partitions:
        reason = _unusable(ref, path)
        if reason is not None:
            raise InputError(_message(ref.properties.keys, path, reason))


def _unusable(ref: TableRef, path: str) -> str | None:
    names, place = path.split("/"), parse_uri(ref.uri)
    if any(name == META or name.startswith(PARTITION_METADATA) for name in names):
        return "a directory name in it is one that the table keeps for itself"
    if "\0" in path:
        return "it has the character NUL"
    if ref.config.get(MARKER_TYPE) is not MarkerType.DIRECT and ("\n" in path or "\r" in path):
        return f"it has a line break, which only {MARKER_TYPE.name}=direct can do with"
    if place.scheme == "memory":
        return None
    if place.scheme == "file":
        if max(map(_size, names)) > _MOST_NAME_BYTES:
            return f"a directory name has at most {_MOST_NAME_BYTES} bytes"
        most = _MOST_FILE_BYTES
    else:
        if has_control_characters(path):
            return "it has control characters, which the store refuses"
        most = _MOST_OBJECT_BYTES
    if path and _size(place.path) + _size(path) + _OTHER_BYTES > most:
        return f"a file there would have a path of more than {most} bytes"
    return None


def _message(keys: KeyRule, path: str, reason: str) -> str:
    short_path = repr(path if len(path) <= 100 else f"{path[:100]}...")
    fields = ",".join(keys.partition_fields)
    advice = ""
    if has_control_characters(path) and not keys.url_encode:
        advice = "; create the table with hoodie.datasource.write.partitionpath.urlencode=true"
    elif not keys.hive_style and META in path:
        advice = "; create the table with hoodie.datasource.write.hive_style_partitioning=true"
    return f"partition path {short_path} (of {fields}) cannot be used: {reason}{advice}"


def _size(text: str) -> int:
    return len(text.encode())


# -- preparing rows -----------------------------------------------------------------------------


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
    lower_names: set[str] = set()
    for name in names:
        if name.lower() in lower_names:
            raise InputError(f"duplicate column name (case-insensitive): {name!r}")
        lower_names.add(name.lower())


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
    delete_schema = pa.schema([table_schema.field(name) for name in names])
    nullable = pa.schema([field.with_nullable(True) for field in delete_schema])
    evolve(nullable, pa.schema([incoming.field(name) for name in names]))
    return delete_schema


def prepare(ref: TableRef, rows: pa.Table, table_schema: pa.Schema) -> tuple[Incoming, pa.Schema]:
    """Rows in the table's schema with keys and partition paths, and that schema, evolved.

    Whatever is wrong with the rows is found here, before anything is written.
    """
    keys_rule, merge_rule = ref.properties.keys, ref.properties.merge
    schema = evolve_schema(ref, normalise(rows.schema), table_schema)
    rows = conform(rows, schema)
    keys = arrays.one_array(record_keys(rows, keys_rule))
    partitions = arrays.one_array(partition_paths(rows, keys_rule))
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
    return incoming.take(arrays.one_array(winners.rows.column("position")))


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
            keys = arrays.one_array(rows.column(RECORD_KEY))
            return Incoming(rows, keys, pa.repeat("", len(keys))), True
    delete_schema = schema_of_deletes(ref, normalise(rows.schema), schema)
    rows = conform(rows.select(delete_schema.names), delete_schema)
    keys = arrays.one_array(record_keys(rows, rule))
    has_partitions = has_fields(rows.schema, rule.partition_fields)
    if has_partitions:
        partitions = arrays.one_array(partition_paths(rows, rule))
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
