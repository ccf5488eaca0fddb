"""Rows between Arrow and Avro binary: what the records of Avro data blocks in log files are.

Whole columns at a time (see `avro_decode` for the bytes, `avro_encode` for the way back); the
schema of the rows is exactly `arrow_from_avro` of the schema given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from hoodoo.errors import FormatError
from hoodoo.format.avro.decode import Decoder, Ints
from hoodoo.format.avro.encode import encode_batch
from hoodoo.format.avro.schema import parse_record

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 1 << 26

# The log blocks of a file, and mostly of a table, share one schema.
_parse_once = lru_cache(maxsize=64)(parse_record)


def decode_records(records: Sequence[bytes | memoryview], schema_json: str) -> pa.Table:
    """The rows that Avro binary records of this schema hold."""
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(sizes)
    return decode_slices(b"".join(records), ends - sizes, ends, schema_json)


def decode_slices(data: bytes, starts: Ints, ends: Ints, schema_json: str) -> pa.Table:
    """The rows of records that lie in `data` between `starts` and `ends`, in this order."""
    record = _parse_once(schema_json)
    if not len(starts):
        return pa.schema(list(record.arrow)).empty_table()
    bounds = np.column_stack((starts, ends)).ravel()
    if bounds[0] < 0 or bounds[-1] > len(data) or (np.diff(bounds) < 0).any():
        raise FormatError("Avro records overlap or leave their block")
    rows = Decoder(data).records(record, starts, ends)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])


def encode_records(table: pa.Table, schema_json: str) -> list[bytes]:
    """Each row as an Avro binary record; the table must have the schema's columns and types."""
    records: list[bytes] = []
    for batch in encode_array(table, schema_json).chunks:
        records.extend(batch.to_pylist())
    return records


def encode_array(table: pa.Table, schema_json: str) -> pa.ChunkedArray:
    """`encode_records`, as an Arrow array of binaries."""
    record = _parse_once(schema_json)
    row_bytes = table.nbytes // max(table.num_rows, 1) + 1
    size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))
    chunks = [encode_batch(record, batch) for batch in table.to_batches(max_chunksize=size)]
    return pa.chunked_array(chunks, pa.binary())
