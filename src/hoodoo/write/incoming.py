"""What a caller hands to a write, read once ahead of it: writes may be tried again, streams not."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.format.schema import without_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.rows.incoming import is_dicts, keys_to_arrow, rows_to_arrow
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema


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
