"""The meta columns of new rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.schema import FILE_NAME, RECORD_KEY, with_meta_fields
from hoodoo.model.paths import PartitionPath
from hoodoo.write.context import WriteContext


def with_meta(
    context: WriteContext, rows: pa.Table, partition: PartitionPath, *, index: int, first: int
) -> pa.Table:
    """New rows, which bring their keys, with meta columns; the file's name comes with the file.

    `index` is that of the handle, `first` the number of the first row: they count from 0 in base
    files and from 1 in log files, as Apache Hudi's do.
    """
    time, count = context.requested_time, rows.num_rows
    numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
    prefix = _text(f"{time}_{index}_")
    meta = [
        pa.repeat(_text(time), count),
        pc.binary_join_element_wise(prefix, numbers, _text("")),
        rows.column(RECORD_KEY),
        pa.repeat(_text(partition), count),
        pa.nulls(count, pa.string()),
    ]
    data = [rows.column(field.name) for field in context.schema]
    return pa.table([*meta, *data], schema=with_meta_fields(context.schema))


def named(rows: pa.Table, file_name: str) -> pa.Table:
    """Rows with the name of the file that they are in."""
    index = rows.schema.get_field_index(FILE_NAME)
    names = pa.repeat(_text(file_name), rows.num_rows)
    return rows.set_column(index, rows.schema.field(index), names)


def _text(value: str) -> pa.Scalar:
    """Typed, because pyarrow is slow to find out that a text is one."""
    return pa.scalar(value, pa.string())
