"""Ordering values of delete blocks: Avro binary <-> Arrow columns.

    null boolean int long float double bytes string date decimal time timestamp   branches 0 to 11
        boolean, int, long, float (4 bytes LE), double (8 bytes LE), bytes, string as in Avro;
        date: int, days; decimal: bytes, the unscaled number of decimal(30,15), big endian;
        time, timestamp: long, microseconds
    array                                                                         branch 12
        union null, array of a union of branches 0 to 11 as above and 12, a local date: int, days

Ints and longs are zigzag varints. An array is blocks of items (count, items), ended by count 0; a
negative count is followed by the size of the block in bytes.

On disk a value is an Avro union of records with one field each, the wrappers; in memory it is an
Arrow dense union whose type codes are `OrderingKind`, so that each delete keeps its wrapper. A
delete whose value is null or Integer 0 has no event time: it wins over whatever came before, in
every merge mode. Long 0 is an ordinary value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from hoodoo.errors import FormatError, InputError
from hoodoo.format.arrow_types import codes_and_offsets

# -- columns of ordering values --------------------------------------------------------------------


class OrderingKind(IntEnum):
    """The wrapper of an ordering value; up to ARRAY, its branch of the union on disk."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12  # several ordering fields
    LOCAL_DATE = 13  # only inside an array, where it is branch 12


K = OrderingKind

DECIMAL_TYPE = pa.decimal128(30, 15)
_SCALARS: Mapping[OrderingKind, pa.DataType] = {
    K.NULL: pa.null(),
    K.BOOLEAN: pa.bool_(),
    K.INT: pa.int32(),
    K.LONG: pa.int64(),
    K.FLOAT: pa.float32(),
    K.DOUBLE: pa.float64(),
    K.BYTES: pa.binary(),
    K.STRING: pa.string(),
    K.DATE: pa.date32(),
    K.DECIMAL: DECIMAL_TYPE,
    K.TIME_MICROS: pa.time64("us"),
    K.TIMESTAMP_MICROS: pa.timestamp("us", tz="UTC"),
}


def _union_type(types: Mapping[OrderingKind, pa.DataType]) -> pa.DataType:
    fields = [pa.field(kind.name.lower(), type_) for kind, type_ in types.items()]
    return pa.dense_union(fields, type_codes=[int(kind) for kind in types])


ELEMENT_TYPES: Mapping[OrderingKind, pa.DataType] = {**_SCALARS, K.LOCAL_DATE: pa.date32()}
ELEMENT = _union_type(ELEMENT_TYPES)
ORDERING_TYPES: Mapping[OrderingKind, pa.DataType] = {**_SCALARS, K.ARRAY: pa.list_(ELEMENT)}
ORDERING = _union_type(ORDERING_TYPES)


def union_of(
    kinds: npt.NDArray[np.int8],
    children: Mapping[OrderingKind, pa.Array],
    types: Mapping[OrderingKind, pa.DataType] = ORDERING_TYPES,
) -> pa.Array:
    """A union array; `children` holds the values of each kind in row order, NULL left out."""
    offsets = np.zeros(len(kinds), dtype=np.int32)
    arrays: list[pa.Array] = []
    for kind, type_ in types.items():
        rows = kinds == kind
        number = int(np.count_nonzero(rows))
        offsets[rows] = np.arange(number, dtype=np.int32)
        if kind is K.NULL:
            arrays.append(pa.nulls(number))
        else:
            arrays.append(children[kind] if kind in children else pa.nulls(0, type_))
    return pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        arrays,
        [kind.name.lower() for kind in types],
        [int(kind) for kind in types],
    )


def whole(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """The column as one array of this type."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 0 and type_ == ORDERING:
            return union_of(np.empty(0, dtype=np.int8), {})
        column = column.combine_chunks()
    return column if column.type == type_ else column.cast(type_)


def child(union: pa.Array, kind: OrderingKind) -> pa.Array:
    """The values of one kind, to be indexed by the offsets of the rows that have it."""
    index = [field.name for field in union.type].index(kind.name.lower())
    return union.field(index)


def kinds_in(ordering: pa.Array | pa.ChunkedArray) -> frozenset[OrderingKind]:
    """The kinds of the ordinary values: those that `is_special` does not cover."""
    union = whole(ordering, ORDERING)
    codes, _ = codes_and_offsets(union)
    ordinary = ~np.asarray(is_special(union))
    return frozenset(OrderingKind(int(code)) for code in np.unique(codes[ordinary]))


def is_special(ordering: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Per delete, whether it has no event time and so always wins: null, or Integer 0."""
    union = whole(ordering, ORDERING)
    codes, offsets = codes_and_offsets(union)
    special = codes == K.NULL
    ints = codes == K.INT
    if ints.any():
        values = child(union, K.INT).to_numpy(zero_copy_only=False)
        special[ints] = values[offsets[ints]] == 0
    return pa.array(special)


def values_of(ordering: pa.Array | pa.ChunkedArray, kind: OrderingKind) -> pa.Array:
    """The values of one kind as an array as long as the column; null for all other deletes."""
    union = whole(ordering, ORDERING)
    codes, offsets = codes_and_offsets(union)
    return child(union, kind).take(pa.array(offsets, mask=codes != kind))


def wrap(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ordering values of one ordering column as a union, in the wrapper that fits its type."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pat.is_null(array.type):
        return union_of(np.zeros(len(array), dtype=np.int8), {})
    kind = _kind_of(array.type)
    try:
        present = array.drop_null().cast(ORDERING_TYPES[kind])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"ordering values do not fit {kind.name}: {error}") from None
    kinds = np.where(np.asarray(array.is_valid()), np.int8(kind), np.int8(K.NULL))
    return union_of(kinds, {kind: present})


def always_wins(count: int) -> pa.Array:
    """Ordering values of deletes that win regardless of event time: Integer 0, as Spark writes."""
    zeros = pa.array(np.zeros(count, dtype=np.int32))
    return union_of(np.full(count, K.INT, dtype=np.int8), {K.INT: zeros})


def _kind_of(type_: pa.DataType) -> OrderingKind:
    if pat.is_dictionary(type_):
        return _kind_of(type_.value_type)
    if pat.is_integer(type_):
        return K.INT if type_.bit_width < 32 or type_ == pa.int32() else K.LONG
    for check, kind in _FITTING:
        if check(type_):
            return kind
    raise InputError(f"a column of type {type_} cannot order deletes")


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def _is_bytes(type_: pa.DataType) -> bool:
    views = (pa.binary(), pa.large_binary(), pa.binary_view())
    return type_ in views or bool(pat.is_fixed_size_binary(type_))


_FITTING: tuple[tuple[Callable[[pa.DataType], bool], OrderingKind], ...] = (
    (pat.is_boolean, K.BOOLEAN),
    (pat.is_float64, K.DOUBLE),
    (pat.is_floating, K.FLOAT),
    (_is_text, K.STRING),
    (pat.is_date, K.DATE),
    (pat.is_decimal, K.DECIMAL),
    (_is_bytes, K.BYTES),
    (pat.is_time, K.TIME_MICROS),
    (pat.is_timestamp, K.TIMESTAMP_MICROS),
)


# -- Avro binary of one value ----------------------------------------------------------------------


Raw: TypeAlias = Any  # int for numbers, bytes for all else, list of (kind, raw) for arrays
Reader: TypeAlias = Callable[[bytes, int], tuple[Raw, int]]

_LOCAL_DATE_BRANCH = 12
_DECIMAL_LIMIT = 10**DECIMAL_TYPE.precision
_WIDTH = {K.FLOAT: 4, K.DOUBLE: 8}
_INT32 = (K.INT, K.DATE, K.LOCAL_DATE)


def read_long(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends. IndexError where the bytes end."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise FormatError("a number of more than 64 bits")
        pos += 1
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> 64:
        raise FormatError("a number of more than 64 bits")
    return (value >> 1) ^ -(value & 1), pos + 1


def varint(value: int) -> bytes:
    """A long as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    """Bytes with their length in front, and where they end."""
    length, pos = read_long(data, pos)
    end = pos + length
    if length < 0 or end > len(data):
        raise FormatError(f"{length} bytes do not fit")
    return data[pos:end], end


def read_count(data: bytes, pos: int, *, least: int) -> tuple[int, int]:
    """The number of items in the next block of an array; each takes at least `least` bytes."""
    count, pos = read_long(data, pos)
    if count < 0:
        count = -count
        _, pos = read_long(data, pos)
    if count * least > len(data) - pos:
        raise FormatError(f"{count} items do not fit")
    return count, pos


def _read_boolean(data: bytes, pos: int) -> tuple[int, int]:
    if data[pos] > 1:
        raise FormatError(f"{data[pos]} is no boolean")
    return data[pos], pos + 1


def _read_fixed(width: int) -> Reader:
    def read(data: bytes, pos: int) -> tuple[bytes, int]:
        if pos + width > len(data):
            raise FormatError("a number ends too early")
        return data[pos : pos + width], pos + width

    return read


def _read_array(data: bytes, pos: int) -> tuple[list[tuple[int, Raw]] | None, int]:
    branch, pos = read_long(data, pos)
    if branch == 0:
        return None, pos
    if branch != 1:
        raise FormatError(f"no array of ordering values has branch {branch}")
    items: list[tuple[int, Raw]] = []
    count, pos = read_count(data, pos, least=1)
    while count:
        for _ in range(count):
            branch, pos = read_long(data, pos)
            if branch == 0:
                items.append((K.NULL, None))
                continue
            kind = K.LOCAL_DATE if branch == _LOCAL_DATE_BRANCH else branch
            reader = _SCALAR_READERS.get(kind)
            if reader is None or branch > _LOCAL_DATE_BRANCH:
                raise FormatError(f"no ordering value in an array has branch {branch}")
            value, pos = reader(data, pos)
            items.append((kind, value))
        count, pos = read_count(data, pos, least=1)
    return items, pos


_SCALAR_READERS: Mapping[int, Reader] = {
    K.BOOLEAN: _read_boolean,
    K.INT: read_long,
    K.LONG: read_long,
    K.FLOAT: _read_fixed(_WIDTH[K.FLOAT]),
    K.DOUBLE: _read_fixed(_WIDTH[K.DOUBLE]),
    K.BYTES: read_bytes,
    K.STRING: read_bytes,
    K.DATE: read_long,
    K.DECIMAL: read_bytes,
    K.TIME_MICROS: read_long,
    K.TIMESTAMP_MICROS: read_long,
    K.LOCAL_DATE: read_long,
}
READERS: Mapping[int, Reader] = {
    kind: _SCALAR_READERS.get(kind, _read_array) for kind in ORDERING_TYPES if kind is not K.NULL
}


def column_of(kind: OrderingKind, raws: Sequence[Raw]) -> pa.Array:
    """The raw values of one kind as an Arrow array."""
    type_ = ORDERING_TYPES.get(kind, ELEMENT_TYPES.get(kind))
    if kind is K.ARRAY:
        return _array_column(raws)
    if kind is K.BOOLEAN:
        return pa.array(np.array(raws, dtype=np.bool_))
    if kind in _WIDTH:
        return pa.array(np.frombuffer(b"".join(raws), dtype=f"<f{_WIDTH[kind]}"))
    if kind is K.BYTES:
        return pa.array(raws, type_)
    if kind is K.STRING:
        try:
            return pa.array(raws, pa.binary()).cast(type_)
        except pa.ArrowInvalid:
            raise FormatError("an ordering value is not UTF-8") from None
    if kind is K.DECIMAL:
        return _decimal_column(raws)
    storage = pa.int32() if kind in _INT32 else pa.int64()
    try:
        return pa.array(raws, storage).view(type_)
    except (pa.ArrowInvalid, OverflowError):
        raise FormatError(f"an ordering value does not fit {kind.name}") from None


def _decimal_column(raws: Sequence[bytes]) -> pa.Array:
    numbers = [int.from_bytes(raw, "big", signed=True) for raw in raws if len(raw) <= 16]
    if len(numbers) != len(raws) or any(abs(number) >= _DECIMAL_LIMIT for number in numbers):
        raise FormatError(f"an ordering value does not fit {DECIMAL_TYPE}")
    words = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(DECIMAL_TYPE, len(raws), [None, pa.py_buffer(words)])


def _array_column(raws: Sequence[list[tuple[int, Raw]] | None]) -> pa.Array:
    items = [item for raw in raws if raw is not None for item in raw]
    kinds = np.array([kind for kind, _ in items], dtype=np.int8)
    values: dict[OrderingKind, list[Raw]] = {}
    for kind, value in items:
        values.setdefault(K(kind), []).append(value)
    values.pop(K.NULL, None)
    columns = {kind: column_of(kind, of_kind) for kind, of_kind in values.items()}
    ends = np.cumsum([0] + [len(raw or ()) for raw in raws])
    is_null = np.array([raw is None for raw in raws] + [False])
    elements = union_of(kinds, columns, ELEMENT_TYPES)
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32(), mask=is_null), elements, type=pa.list_(ELEMENT)
    )


def payloads_of(union: pa.Array, kind: OrderingKind) -> list[bytes]:
    """The values of one kind in a union array as Avro binary, each with its branch in front."""
    values = child(union, kind)
    branch = varint(_LOCAL_DATE_BRANCH if kind is K.LOCAL_DATE else kind)
    return [branch + payload for payload in _encode(kind, values)]


def _encode(kind: OrderingKind, values: pa.Array) -> list[bytes]:
    if kind is K.NULL:
        return [b""] * len(values)
    if kind is K.ARRAY:
        return _encode_arrays(values)
    if kind is K.BOOLEAN:
        return [b"\x01" if value else b"\x00" for value in values.to_pylist()]
    if kind in _WIDTH:
        width = _WIDTH[kind]
        data = values.to_numpy().astype(f"<f{width}").tobytes()
        return [data[at : at + width] for at in range(0, len(data), width)]
    if kind in (K.BYTES, K.STRING):
        texts = values.cast(pa.binary()).to_pylist()
        return [varint(len(text)) + text for text in texts]
    if kind is K.DECIMAL:
        words = values.view(pa.binary(16)).to_pylist()
        return [_minimal(int.from_bytes(word, "little", signed=True)) for word in words]
    storage = pa.int32() if kind in _INT32 else pa.int64()
    return [varint(value) for value in values.view(storage).to_pylist()]


def _minimal(number: int) -> bytes:
    """A number in the fewest bytes of two's complement, big endian, with the length in front."""
    bits = number.bit_length() if number >= 0 else (~number).bit_length()
    size = bits // 8 + 1
    return varint(size) + number.to_bytes(size, "big", signed=True)


def _encode_arrays(lists: pa.Array) -> list[bytes]:
    elements = lists.values
    codes, places = codes_and_offsets(elements)
    payloads = {kind: payloads_of(elements, kind) for kind in map(K, np.unique(codes).tolist())}
    items = [
        payloads[code][place] for code, place in zip(codes.tolist(), places.tolist(), strict=True)
    ]
    starts = lists.offsets.to_pylist()
    out: list[bytes] = []
    for row, is_valid in enumerate(lists.is_valid().to_pylist()):
        if not is_valid:
            out.append(varint(0))
            continue
        encoded_items = items[starts[row] : starts[row + 1]]
        count = varint(len(encoded_items)) if encoded_items else b""
        out.append(b"".join([varint(1), count, *encoded_items, varint(0)]))
    return out
