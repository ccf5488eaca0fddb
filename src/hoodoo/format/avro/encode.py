"""Arrow columns into Avro binary records, all rows at once (see `avro_decode` for the bytes).

Each field becomes a few arrays of binaries, its pieces: branch, length, bytes. Arrow then joins
the pieces of a row. The bytes are those that Avro for Java writes: arrays and maps in one block,
decimals of type bytes in as few bytes as possible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.errors import SchemaMismatch
from hoodoo.format.arrow_types import codes_and_offsets, values_of_code
from hoodoo.format.avro.schema import AvroField, AvroType

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_NOTHING = pa.scalar(b"", pa.binary())
_END = pa.scalar(b"\0", pa.binary())


def encode_batch(record: AvroType, batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of the batch, whose columns are the record's fields, as Avro binary."""
    schema = pa.schema(list(record.arrow))
    if not batch.schema.equals(schema):
        raise SchemaMismatch(f"rows of {batch.schema} are not rows of {schema}")
    return _join(_value(record, batch.to_struct_array()))


def decimal_bytes(decimals: pa.Decimal128Array) -> pa.BinaryArray:
    """Unscaled values, big endian, in as few bytes as possible."""
    return _trim(_big_endian(decimals))


def _join(pieces: list[pa.Array]) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def _field(field: AvroField, values: pa.Array) -> list[pa.Array]:
    if values.null_count and not field.nullable:
        raise SchemaMismatch(f"column {field.arrow.name}: nulls, and must have none")
    if not field.in_union:
        return _value(field.type, values)
    branch = pa.scalar(bytes([2 * field.branch]), pa.binary())
    if not values.null_count:
        return [branch, *_value(field.type, values)]
    null = pa.scalar(bytes([2 * (1 - field.branch)]), pa.binary())
    if values.null_count == len(values):
        return [pa.repeat(null, len(values))]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    dense = _join([branch, *_value(field.type, values.drop_null())])
    return [dense.take(pa.array(np.cumsum(present) - 1, mask=~present)).fill_null(null)]


def _value(type_: AvroType, values: pa.Array) -> list[pa.Array]:
    """The pieces of values, none of which is null."""
    match type_.kind:
        case "record":
            children = zip(type_.fields, values.flatten(), strict=True)
            return [piece for field, child in children for piece in _field(field, child)]
        case "array" | "map":
            return _blocks(type_, values)
        case "union":
            return [_unions(type_, values)]
        case "null":
            return []
        case "int":
            return [_numbers(values.view(pa.int32()).to_numpy().astype(np.int64))]
        case "long":
            return [_numbers(values.view(pa.int64()).to_numpy())]
        case "enum":
            index = pc.index_in(values, pa.array(type_.symbols, pa.string()))
            if index.null_count:
                raise SchemaMismatch(f"a value is none of {', '.join(type_.symbols)}")
            return [_numbers(index.to_numpy().astype(np.int64))]
        case "string":
            return _encode_sized(values.cast(pa.binary()))
        case "bytes" if pt.is_decimal(type_.arrow):
            return _encode_sized(_trim(_big_endian(values)))
        case "bytes":
            return _encode_sized(values)
        case "boolean":
            return [_rows(values.to_numpy(zero_copy_only=False).astype(np.uint8)[:, None])]
        case "fixed" if pt.is_decimal(type_.arrow):
            return [_rows(_resize(_big_endian(values), type_.size))]
        case "fixed":
            return [values.cast(pa.binary())]
    floats = values.to_numpy().astype(f"<f{type_.arrow.byte_width}", copy=False)
    return [_rows(np.ascontiguousarray(floats)[:, None].view(np.uint8))]


def _unions(type_: AvroType, values: pa.Array) -> pa.BinaryArray:
    if not len(values):
        return pa.array([], pa.binary())
    arrays, order = [], []
    for code in np.unique(codes_and_offsets(values)[0]).tolist():
        rows, branch_values = values_of_code(values, code)
        order.append(rows)
        pieces = _value(type_.fields[code].type, branch_values)
        arrays.append(_join([_numbers(np.full(len(rows), code)), *pieces]))
    return pa.concat_arrays(arrays).take(pa.array(np.argsort(np.concatenate(order))))


def _blocks(type_: AvroType, values: pa.Array) -> list[pa.Array]:
    offsets = values.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    of_value = type_.fields[0]
    if type_.kind == "array":
        pieces = _field(of_value, values.values[first:last])
    else:
        keys = _encode_sized(values.keys[first:last].cast(pa.binary()))
        pieces = keys + _field(of_value, values.items[first:last])
    lists = pa.ListArray.from_arrays(pa.array(offsets - first), _join(pieces))
    counts = np.diff(offsets).astype(np.int64)
    return [_numbers(counts, is_written=counts > 0), pc.binary_join(lists, _NOTHING), _END]


def _numbers(values: Ints, is_written: npt.NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    """Each number in Avro's variable size; nothing for those that are not `is_written`."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, -(-int(raw.max(initial=0)).bit_length() // 7))
    place = np.arange(width)
    groups = raw[:, None] >> (7 * place).astype(np.uint64)
    follows = groups[:, 1:] > 0
    data = (groups & np.uint64(127)).astype(np.uint8)
    data[:, :-1] |= follows.astype(np.uint8) << 7
    is_used = np.column_stack((np.ones(len(raw), bool), follows))
    if is_written is not None:
        is_used &= is_written[:, None]
    return _binaries(data[is_used], is_used.sum(axis=1))


def _encode_sized(values: pa.BinaryArray) -> list[pa.Array]:
    lengths = pc.binary_length(values).to_numpy().astype(np.int64)
    return [_numbers(lengths), values]


def _binaries(data: Bytes, sizes: npt.NDArray[np.integer]) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _rows(matrix: Bytes) -> pa.BinaryArray:
    return _binaries(np.ascontiguousarray(matrix), np.full(len(matrix), matrix.shape[1]))


def _big_endian(decimals: pa.Decimal128Array) -> Bytes:
    """The unscaled values, in rows of 16 bytes."""
    start, count = decimals.offset, len(decimals)
    if not count:
        return np.empty((0, 16), np.uint8)
    data = np.frombuffer(decimals.buffers()[1], np.uint8, 16 * count, 16 * start)
    return data.reshape(count, 16)[:, ::-1]


def _resize(rows: Bytes, size: int) -> Bytes:
    # Fewer bytes hold all the digits that the type allows; more repeat the sign.
    if size <= 16:
        return rows[:, 16 - size :]
    sign = np.where(rows[:, :1] > 127, np.uint8(255), np.uint8(0))
    return np.hstack((np.repeat(sign, size - 16, axis=1), rows))


def _trim(rows: Bytes) -> pa.BinaryArray:
    """The rows without leading bytes that only repeat the sign."""
    sign = np.where(rows[:, :1] > 127, np.uint8(255), np.uint8(0))
    repeats = (rows[:, :-1] == sign) & ((rows[:, 1:] > 127) == (sign > 127))
    leading = np.logical_and.accumulate(repeats, axis=1)
    is_used = np.column_stack((~leading, np.ones(len(rows), bool)))
    return _binaries(rows[is_used], is_used.sum(axis=1))
