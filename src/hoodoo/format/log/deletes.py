"""Delete blocks: the keys to delete, with the ordering value that each delete carries.

    int32  3, version of the content
    int32  n
    n      Avro binary of a list of deletes, each
             record key      union null, string
             partition path  union null, string
             ordering        union null, 11 wrappers of one value, array of wrappers; see `ordering`

In memory the list is an Arrow table of `DELETES`. The Avro is read and written by hand: a hundred
thousand deletes take a third of the time that a general Avro reader needs, and the wrapper of each
ordering value is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedVersion
from hoodoo.format.arrow_types import codes_and_offsets
from hoodoo.format.log.blocks import Block, BlockType, Header, HeaderKey
from hoodoo.format.log.ordering import (
    ORDERING,
    READERS,
    K,
    Raw,
    column_of,
    payloads_of,
    read_bytes,
    read_count,
    read_long,
    union_of,
    varint,
    whole,
)
from hoodoo.model.instant import InstantTime

DELETES = pa.schema(
    [
        pa.field("record_key", pa.string()),
        pa.field("partition_path", pa.string()),
        pa.field("ordering", ORDERING),
    ]
)
_VERSION = 3
_HEAD = struct.Struct(">ii")
_LEAST_BYTES = 3  # of one delete: three union branches


def deletes_of(
    record_keys: pa.Array | pa.ChunkedArray,
    partition_paths: pa.Array | pa.ChunkedArray,
    ordering: pa.Array,
) -> pa.Table:
    """A table of deletes; see `ordering.wrap` and `ordering.always_wins` for the last column."""
    return pa.Table.from_arrays(
        [whole(record_keys, pa.string()), whole(partition_paths, pa.string()), ordering],
        schema=DELETES,
    )


def split_by_kind(deletes: pa.Table) -> list[pa.Table]:
    """The deletes by the wrapper of their ordering value: hudi-rs takes one kind in a block."""
    codes, _ = codes_and_offsets(whole(deletes.column("ordering"), ORDERING))
    return [deletes.filter(pa.array(codes == kind)) for kind in np.unique(codes)]


def delete_block(
    deletes: pa.Table,
    *,
    instant_time: InstantTime,
    schema_json: str | None = None,
    extra: Header | None = None,
) -> Block:
    """The block that deletes these keys. Readers do not need the schema; Java writes it too."""
    header = {HeaderKey.INSTANT_TIME: str(instant_time)}
    if schema_json is not None:
        header[HeaderKey.SCHEMA] = schema_json
    return Block(BlockType.DELETE, {**header, **(extra or {})}, encode_deletes(deletes))


def decode_deletes(block: Block) -> pa.Table:
    """The deletes of a delete block, in block order, as a table of `DELETES`."""
    content = bytes(block.content)
    if len(content) < _HEAD.size:
        raise CorruptBlock("a delete block without a version", offset=block.offset)
    version, length = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise UnsupportedVersion(what="delete block version", version=version)
    if length != len(content) - _HEAD.size:
        raise CorruptBlock(f"{length} bytes of deletes do not fit", offset=block.offset)
    try:
        return _read_list(content[_HEAD.size :])
    except IndexError:
        raise CorruptBlock("the list of deletes ends too early", offset=block.offset) from None
    except FormatError as error:
        raise CorruptBlock(error.reason, offset=block.offset) from None


def encode_deletes(deletes: pa.Table) -> bytes:
    """The content of a delete block."""
    keys = _encode_texts(deletes["record_key"])
    paths = _encode_texts(deletes["partition_path"])
    union = whole(deletes["ordering"], ORDERING)
    codes, offsets = codes_and_offsets(union)
    payloads = {kind: payloads_of(union, kind) for kind in map(K, np.unique(codes).tolist())}
    parts = [varint(len(keys))] if keys else []
    for key, path, code, offset in zip(keys, paths, codes.tolist(), offsets.tolist(), strict=True):
        parts += (key, path, payloads[code][offset])
    parts.append(varint(0))
    data = b"".join(parts)
    return _HEAD.pack(_VERSION, len(data)) + data


def _read_list(data: bytes) -> pa.Table:
    keys: list[bytes | None] = []
    paths: list[bytes | None] = []
    kinds: list[int] = []
    values: Mapping[int, list[Raw]] = {kind: [] for kind in READERS}
    count, pos = read_count(data, 0, least=_LEAST_BYTES)
    while count:
        for _ in range(count):
            key, pos = _read_text(data, pos)
            path, pos = _read_text(data, pos)
            kind, pos = read_long(data, pos)
            keys.append(key)
            paths.append(path)
            kinds.append(kind)
            if kind:
                reader = READERS.get(kind)
                if reader is None:
                    raise FormatError(f"no ordering value has branch {kind}")
                value, pos = reader(data, pos)
                values[kind].append(value)
        count, pos = read_count(data, pos, least=_LEAST_BYTES)
    if pos != len(data):
        raise FormatError(f"{len(data) - pos} bytes after the list of deletes")
    columns = {K(kind): column_of(K(kind), raw) for kind, raw in values.items() if raw}
    ordering = union_of(np.array(kinds, dtype=np.int8), columns)
    return pa.Table.from_arrays([_texts(keys), _texts(paths), ordering], schema=DELETES)


def _read_text(data: bytes, pos: int) -> tuple[bytes | None, int]:
    branch, pos = read_long(data, pos)
    if branch == 1:
        return read_bytes(data, pos)
    if branch == 0:
        return None, pos
    raise FormatError(f"no key or path has branch {branch}")


def _texts(values: list[bytes | None]) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise FormatError("a key or path is not UTF-8") from None


def _encode_texts(column: pa.ChunkedArray) -> list[bytes]:
    values = whole(column, pa.string()).cast(pa.binary()).to_pylist()
    null, some = varint(0), varint(1)
    return [null if v is None else b"".join((some, varint(len(v)), v)) for v in values]
