"""The meta columns of rows that are written.

Commit time, partition path and file name are the same for many rows, so they are dictionaries:
Parquet takes them as they are, several times as fast as texts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.schema import (
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta_fields,
)
from hoodoo.model.paths import PartitionPath
from hoodoo.write.files.context import WriteContext

REPEATING_COLUMNS = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
"""The meta columns that are dictionaries."""

SAME_FOR_ALL = (PARTITION_PATH, FILE_NAME)
"""The meta columns that rows on their way from one file to another need not bring."""

_TEXTS = pa.dictionary(pa.int32(), pa.string())


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of rows on their way into base files: with meta columns."""
    return pa.schema(
        field.with_type(_TEXTS) if field.name in REPEATING_COLUMNS else field
        for field in with_meta_fields(schema)
    )


def add_meta_columns(
    context: WriteContext, rows: pa.Table, partition: PartitionPath, *, index: int, first: int
) -> pa.Table:
    """New rows, which bring their keys, with meta columns; the file's name comes with the file.

    `index` is that of the handle, `first` the number of the first row: they count from 0 in base
    files and from 1 in log files, as Apache Hudi's do.
    """
    time, count = context.requested_time, rows.num_rows
    numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
    meta = [
        repeat(time, count),
        pc.binary_join_element_wise(_text(f"{time}_{index}_"), numbers, _text("")),
        rows.column(RECORD_KEY),
        repeat(partition, count),
        repeat("", count),
    ]
    data = [rows.column(field.name) for field in context.schema]
    return pa.table([*meta, *data], schema=stored_schema(context.schema))


def to_stored_columns(schema: pa.Schema, rows: pa.Table, partition: PartitionPath) -> pa.Table:
    """Rows of one file on their way into another: they keep their meta columns.

    The file's name comes with the file. `schema` has no meta columns.
    """
    columns = []
    target_schema = stored_schema(schema)
    for name in target_schema.names:
        if name in SAME_FOR_ALL:
            columns.append(repeat(partition, rows.num_rows))
        elif name == COMMIT_TIME:
            columns.append(rows.column(name).dictionary_encode())
        else:
            columns.append(rows.column(name))
    return pa.table(columns, schema=target_schema)


def set_file_name(rows: pa.Table, file_name: str) -> pa.Table:
    """Rows with the name of the file that they are in."""
    index = rows.schema.get_field_index(FILE_NAME)
    return rows.set_column(index, rows.schema.field(index), repeat(file_name, rows.num_rows))


def repeat(value: str, count: int) -> pa.DictionaryArray:
    """A column with the same text in each row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [value])


def _text(value: str) -> pa.Scalar:
    """Typed, because pyarrow is slow to find out that a text is one."""
    return pa.scalar(value, pa.string())
