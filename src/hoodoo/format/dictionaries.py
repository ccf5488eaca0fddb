"""Which columns of a Parquet file are worth a dictionary.

Arrow gives a column's dictionary up when it outgrows its page, and has then looked every value up
for nothing. A sample tells beforehand.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

_SAMPLE = 16_384
_MOST_BYTES = 1 << 20  # of a dictionary, by default in Arrow and in parquet-java


def columns_worth_a_dictionary(rows: pa.Table) -> list[str]:
    """Paths of the leaf columns of rows like these, but for those with too many values."""
    crowded = {name for name in rows.column_names if _is_crowded(rows.column(name))}
    return [path for path in _leaf_paths(rows.schema) if path not in crowded]


def _is_crowded(column: pa.ChunkedArray) -> bool:
    """Whether the distinct values of a column are surely more than a dictionary holds."""
    type_ = column.type
    if pt.is_nested(type_) or pt.is_dictionary(type_) or column.nbytes <= _MOST_BYTES:
        return False
    step = max(1, len(column) // _SAMPLE)
    # Chunk by chunk: of several at once, Arrow would copy all values first.
    sample = pa.chunked_array(
        [chunk.take(pa.array(np.arange(0, len(chunk), step))) for chunk in column.chunks]
    )
    width = sample.nbytes / len(sample)
    distinct = _likely_distinct(pc.count_distinct(sample).as_py(), len(sample), len(column))
    return bool(distinct * width > _MOST_BYTES)


def _likely_distinct(distinct: int, sampled: int, total: int) -> float:
    """How many distinct values there are, if each is as frequent as the others.

    Of `d` values, a sample of `n` shows d * (1 - exp(-n / d)): by its first terms, n / d is twice
    the share of repetitions.
    """
    repeated = sampled - distinct
    if repeated == 0:
        return total
    return min(total, max(distinct, sampled * sampled / (2 * repeated)))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """The columns as Parquet sees them: the leaves of nested ones, with a path each."""
    if not any(pt.is_nested(field.type) for field in schema):
        return list(schema.names)
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False).close()
    written = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [written.column(n).path for n in range(len(written))]
