"""Values of a metadata table <-> an Arrow struct of the fields of `schema.RECORD`, all at once.

A table that was upgraded holds values of older schemas, which lack fields and branches; they are
decoded by the schema that was stored with them, and then brought to ours.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import FormatError
from hoodoo.format.arrow_types import codes_and_offsets, dense_union
from hoodoo.format.avro.decode import Decoder
from hoodoo.format.avro.encode import encode_batch
from hoodoo.format.avro.schema import AvroType, parse_record
from hoodoo.format.metadata_table.keys import key_texts
from hoodoo.format.metadata_table.schema import META_FIELDS, RECORD, RecordKind

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 1 << 28

# Fields that are neither new nor nullable in our schema: what they are in values without them.
_DEFAULTS = {"isTightBound": False, "fileIdEncoding": 0}


@lru_cache(maxsize=16)
def _writer_type(schema_json: str) -> AvroType:
    return parse_record(schema_json, unions=True)


def decode_values(values: pa.Array | pa.ChunkedArray, schema_json: str | None = None) -> pa.Array:
    """The records in `values` (binaries), written by this schema, or else by ours."""
    writer = RECORD if schema_json is None else _writer_type(schema_json)
    if isinstance(values, pa.ChunkedArray):  # many small blocks are decoded in one go
        values = values.combine_chunks()
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [_decode_array(chunk, writer) for chunk in chunks if len(chunk)]
    records = pa.concat_arrays(parts) if parts else pa.nulls(0, writer.arrow)
    return records if records.type == RECORD.arrow else _conform(records, RECORD.arrow, "")


def _decode_array(values: pa.Array, writer: AvroType) -> pa.Array:
    if values.null_count:
        raise FormatError("an entry of a metadata table has no value")
    if pt.is_large_binary(values.type) and values.nbytes >= 2**31:
        half = len(values) // 2
        if not half:
            raise FormatError("a value of the metadata table has 2 GiB or more")
        parts = [_decode_array(part, writer) for part in (values[:half], values[half:])]
        return pa.concat_arrays(parts)
    values = values.cast(pa.binary())
    all_offsets = np.frombuffer(values.buffers()[1], np.int32)
    offsets = all_offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = values.buffers()[2]
    first, last = int(offsets[0]), int(offsets[-1])
    bytes_ = data.slice(first, last - first).to_pybytes() if data is not None else b""
    offsets -= first
    return Decoder(bytes_).records(writer, offsets[:-1], offsets[1:])


def _conform(values: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Values of an older schema as ours: what is new is null, or has its default."""
    if values.type == target:
        return values
    if pt.is_struct(target) and pt.is_struct(values.type):
        number_by_name = {field.name: number for number, field in enumerate(values.type)}
        columns = []
        for field in target:
            at = f"{path}.{field.name}" if path else field.name
            if field.name in number_by_name:
                child = _conform(values.field(number_by_name[field.name]), field.type, at)
            elif field.nullable or field.name in _DEFAULTS:
                child = _absent(field, len(values))
            else:
                raise FormatError(f"values of the metadata table lack the field {at}")
            columns.append(child)
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)
    if pt.is_union(target):
        return _conform_union(values, target, path)
    raise FormatError(f"field {path} of the metadata table has the type {values.type}"[:200])


def _absent(field: pa.Field, count: int) -> pa.Array:
    if pt.is_union(field.type):
        children = [
            pa.nulls(count if number == 0 else 0, one.type) for number, one in enumerate(field.type)
        ]
        return dense_union(field.type, np.zeros(count, np.int8), children)
    if field.name in _DEFAULTS:
        return pa.repeat(pa.scalar(_DEFAULTS[field.name], field.type), count)
    return pa.nulls(count, field.type)


def _conform_union(values: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if not pt.is_union(values.type):
        raise FormatError(f"field {path} of the metadata table has the type {values.type}"[:200])
    codes, offsets = codes_and_offsets(values)
    numbers = {field.name: number for number, field in enumerate(target)}
    target_codes = np.zeros(len(codes), np.int8)
    children = [pa.nulls(0, field.type) for field in target]
    for code, field in enumerate(values.type):
        rows = codes == code
        number = numbers.get(field.name)
        if number is None:
            if rows.any():
                raise FormatError(f"field {path} of the metadata table is a {field.name}")
            continue
        target_codes[rows] = number
        child = values.field(code).take(pa.array(offsets[rows]))
        children[number] = _conform(child, target[number].type, f"{path}.{field.name}")
    return dense_union(target, target_codes, children)


def payload_of(records: pa.Array, *kinds: RecordKind) -> pa.Array:
    """The part of records that tells what they are about; all must be of one of these kinds."""
    numbers = records.field("type").to_numpy()
    payload = records.field(kinds[0].payload)
    if payload.null_count or not np.isin(numbers, kinds).all():
        raise FormatError(f"a record of the metadata table is none of {kinds[0].payload}")
    return payload


def encode_payload(
    kinds: pa.Array, field: str, payload: pa.Array, *, base_file: str | None = None
) -> pa.Array:
    """Values with one payload each; a compaction names the base file that it writes them to."""
    count = len(kinds)
    if not count:
        return pa.array([], pa.binary())
    present = {
        "key": pa.repeat(pa.scalar(""), count),
        "type": kinds,
        META_FIELDS[-1]: pa.repeat(pa.scalar(base_file, pa.string()), count),
        field: payload,
    }
    columns = [
        present[one.name] if one.name in present else pa.nulls(count, one.type)
        for one in RECORD.arrow
    ]
    return encode_values(pa.StructArray.from_arrays(columns, fields=list(RECORD.arrow)))


def encode_values(records: pa.Array) -> pa.Array:
    """Each record as its bytes."""
    if not len(records):
        return pa.array([], pa.binary())
    size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // (records.nbytes // len(records) + 1)))
    parts = [
        encode_batch(RECORD, pa.RecordBatch.from_struct_array(records[at : at + size]))
        for at in range(0, len(records), size)
    ]
    total = sum(part.nbytes for part in parts)
    if total >= 2**31:
        parts = [part.cast(pa.large_binary()) for part in parts]
    return pa.concat_arrays(parts)


def decode_entries(
    kind: RecordKind,
    schema: pa.Schema,
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None,
) -> pa.Table:
    """Decode the values of a small partition into a table with the key and the fields of `kind`."""
    payload = payload_of(decode_values(values, schema_json), kind)
    return pa.table([key_texts(keys), *payload.flatten()], schema)


def encode_entries(kind: RecordKind, field: str, rows: pa.Table, base_file: str | None) -> pa.Array:
    """Encode the rows of a small partition, all but the key, as values of the metadata table."""
    if not rows.num_rows:
        return pa.array([], pa.binary())
    columns = [column.combine_chunks() for column in rows.columns[1:]]
    payload = pa.StructArray.from_arrays(columns, fields=list(RECORD.arrow.field(field).type))
    kinds = pa.repeat(pa.scalar(int(kind), pa.int32()), len(payload))
    return encode_payload(kinds, field, payload, base_file=base_file)
