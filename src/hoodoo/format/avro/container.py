"""Avro object container files, as timeline files are: one schema, one block, one record.

    "Obj" 0x01
    map<bytes>   avro.schema (JSON), avro.codec (absent: null)
    16 bytes     sync marker
    then blocks: long record count, long byte count, the records, the sync marker again

A `long` is zig-zag and variable-length; a map is blocks of (count, key-value pairs) ended by 0.
We write no codec, and derive the sync marker from the content: same value, same bytes.

A file brings the schema that it is decoded with, and the file may be bad. So a writer's schema is
rebuilt from the attributes that decide the bytes; all else (defaults, docs, logical types) is left
out. It is refused if decoding by it could do harm:

    a record that contains itself      data could nest without end, and overflow the C stack
    null outside a union, no fields    a value of no bytes, which an array repeats for nothing
    more than 64 levels                likewise
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from hoodoo.errors import FormatError

# -- schemas that are safe to decode with ----------------------------------------------------------


_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_NULL = ("null", {"type": "null"})
_MAX_LEVELS = 64


def check_schema(schema: object) -> Any:
    """The schema's bare form, good to decode with."""
    return _Check().rebuild(schema, namespace="", level=0)[0]


class _Check:
    """One walk over a schema; knows the height of each named type met so far."""

    def __init__(self) -> None:
        self._heights: dict[str, int | None] = {}  # None while the type is being defined

    def rebuild(self, schema: object, *, namespace: str, level: int) -> tuple[Any, int]:
        """The bare form of a schema, and how many levels of values it makes."""
        _limit(level)
        if isinstance(schema, str):
            return self._find_named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace, level + 1)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if not isinstance(schema, dict) or not isinstance(kind, str | list | dict):
            raise FormatError(f"Avro schema has {_clip(schema)} in place of a type")
        if not isinstance(kind, str):
            return self.rebuild(kind, namespace=namespace, level=level + 1)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            bare, height = self.rebuild(schema.get(inner), namespace=namespace, level=level + 1)
            return {"type": kind, inner: bare}, height + 1
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, schema, namespace, level + 1)
        return self._find_named(kind, namespace)

    def _find_named(self, name: str, namespace: str) -> tuple[str, int]:
        if name in _PRIMITIVES:
            return name, 1
        full = _full_name(name, namespace)
        height = self._heights.get(full, 0)
        if height is None:
            raise FormatError(f"Avro record {_clip(full)} contains itself")
        if not height:
            raise FormatError(f"Avro schema has {_clip(name)} in place of a type")
        return full, height

    def _union(self, branches: list[object], namespace: str, level: int) -> tuple[Any, int]:
        bare, heights = [], [1]
        for branch in branches:
            if branch in _NULL:
                bare.append("null")
                continue
            part, height = self.rebuild(branch, namespace=namespace, level=level)
            bare.append(part)
            heights.append(height)
        return bare, max(heights)

    def _definition(
        self, kind: str, schema: dict[str, object], namespace: str, level: int
    ) -> tuple[Any, int]:
        name, own_space = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own_space, str):
            raise FormatError(f"Avro {kind} has the name {_clip(name)}")
        full = _full_name(name, own_space)
        if full in self._heights:
            raise FormatError(f"Avro schema defines {_clip(full)} twice")
        self._heights[full] = None
        bare: dict[str, Any] = {"type": kind, "name": full}
        height = 1
        if kind == "enum":
            bare["symbols"] = schema.get("symbols")
        elif kind == "fixed":
            bare["size"] = size = schema.get("size")
            if type(size) is not int or size < 1:
                raise FormatError(f"Avro fixed {_clip(full)} has the size {_clip(size)}")
        else:
            bare["fields"], height = self._fields(schema, full, level)
        self._heights[full] = _limit(height)
        return bare, height

    def _fields(
        self, schema: dict[str, object], full: str, level: int
    ) -> tuple[list[dict[str, Any]], int]:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise FormatError(f"Avro record {_clip(full)} has no fields")
        inner_space = full.rpartition(".")[0]
        bare, heights = [], []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise FormatError(f"Avro record {_clip(full)} has a field without a name")
            part, height = self.rebuild(field.get("type"), namespace=inner_space, level=level)
            bare.append({"name": field["name"], "type": part})
            heights.append(height)
        if len({field["name"] for field in bare}) < len(bare):
            raise FormatError(f"Avro record {_clip(full)} has two fields of one name")
        return bare, 1 + max(heights)


def _limit(levels: int) -> int:
    if levels > _MAX_LEVELS:
        raise FormatError(f"Avro schema nests deeper than {_MAX_LEVELS} levels")
    return levels


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _clip(value: object) -> str:
    return repr(value)[:80]


# -- container files -------------------------------------------------------------------------------


MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_SCHEMA = b"avro.schema"
_CODEC = b"avro.codec"
_INFLATED_LIMIT = 512 << 20  # a deflated block larger than this is a bomb, not metadata

# What fastavro raises on bytes that do not fit the (checked) schema.
_MISFITS = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Container:
    """A container's records, and the name of their schema without its namespace."""

    name: str
    records: tuple[Any, ...]


def write(schema_json: str, record: Mapping[str, Any]) -> bytes:
    """A container with one record."""
    return write_body(schema_json, encode_record(schema_json, record))


def write_body(schema_json: str, body: bytes) -> bytes:
    """A container with one record that is encoded already."""
    schema = schema_json.encode()
    sync = hashlib.sha256(schema + body).digest()[:_SYNC_BYTES]
    header = _long(1) + _prefix_length(_SCHEMA) + _prefix_length(schema) + _long(0)
    return b"".join((MAGIC, header, sync, _long(1), _prefix_length(body), sync))


def encode_record(schema_json: str, record: Mapping[str, Any]) -> bytes:
    """A record's own bytes, by a schema of ours."""
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, _own_schema(schema_json), record)
    except _MISFITS as error:
        raise FormatError(f"a value that cannot be written: {error}") from error
    return out.getvalue()


@lru_cache(maxsize=64)
def _own_schema(schema_json: str) -> Any:
    return fastavro.parse_schema(json.loads(schema_json))


def _long(value: int) -> bytes:
    number = value << 1  # zig-zag; we write no negative ones
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _prefix_length(data: bytes) -> bytes:
    return _long(len(data)) + data


def read(data: bytes) -> Container:
    """Every record of a container."""
    if not data.startswith(MAGIC):
        raise FormatError("not an Avro container: it does not start with Obj 1")
    cursor = _Cursor(data, len(MAGIC))
    header = dict(_header(cursor))
    sync = cursor.take(_SYNC_BYTES)
    if _SCHEMA not in header:
        raise FormatError("Avro container without a schema")
    schema = _foreign_schema(header[_SCHEMA])
    records: list[Any] = []
    while not cursor.at_end:
        count = cursor.long()
        block = _inflate(cursor.take(cursor.long()), header.get(_CODEC, b"null"))
        if cursor.take(_SYNC_BYTES) != sync:
            raise FormatError("Avro block ends without its sync marker")
        if not 0 <= count <= len(block):  # a record takes at least one byte
            raise FormatError(f"Avro block of {len(block)} bytes claims {count} records")
        records.extend(_decode(schema, block, count))
    return Container(schema["name"].rpartition(".")[2], tuple(records))


def read_one(data: bytes) -> tuple[str, dict[str, Any]]:
    """The schema name and the record of a container that holds exactly one."""
    container = read(data)
    if len(container.records) != 1:
        raise FormatError(f"Avro container holds {len(container.records)} records, not one")
    return container.name, container.records[0]


def decode_records(schema_json: str, bodies: Iterable[bytes | memoryview]) -> Iterator[Any]:
    """Records that stand alone, by a schema out of the same file."""
    schema = _foreign_schema(schema_json.encode())
    for body in bodies:
        yield from _decode(schema, bytes(body), 1)


class _Cursor:
    """Reads on from an offset, and never past the end."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    @property
    def at_end(self) -> bool:
        return self._offset == len(self._data)

    def take(self, size: int) -> bytes:
        end = self._offset + size
        if size < 0 or end > len(self._data):
            raise FormatError(f"Avro container ends early: {size} bytes wanted at {self._offset}")
        part = self._data[self._offset : end]
        self._offset = end
        return part

    def long(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise FormatError(f"Avro number at {self._offset} is longer than ten bytes")


def _header(cursor: _Cursor) -> Iterator[tuple[bytes, bytes]]:
    while count := cursor.long():
        if count < 0:
            cursor.long()  # a negative count is followed by the bytes of the map's block
        for _ in range(abs(count)):
            yield cursor.take(cursor.long()), cursor.take(cursor.long())


@lru_cache(maxsize=64)
def _foreign_schema(schema_json: bytes) -> Any:
    """A schema out of a file, ready for decoding; timelines repeat few of them."""
    try:
        bare = check_schema(json.loads(schema_json.decode()))
        if not isinstance(bare, dict) or bare["type"] != "record":
            raise FormatError("Avro container holds something else than records")
        return fastavro.parse_schema(bare)
    except (ValueError, RecursionError, TypeError, KeyError, SchemaParseException) as error:
        raise FormatError(f"bad Avro schema: {error}"[:200]) from error


def _inflate(block: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        raise FormatError(f"Avro codec {codec[:40]!r} is not supported")
    inflater = zlib.decompressobj(wbits=-15)
    try:
        plain = inflater.decompress(block, _INFLATED_LIMIT)
    except zlib.error as error:
        raise FormatError(f"bad deflated Avro block: {error}") from None
    if not inflater.eof:  # bytes after the end are common: a checksum that some writers leave
        raise FormatError("deflated Avro block is cut off, or absurdly large")
    return plain


def _decode(schema: Any, block: bytes, count: int) -> Iterator[Any]:
    stream = BytesIO(block)
    for _ in range(count):
        try:
            yield fastavro.schemaless_reader(stream, schema, None)
        except _MISFITS as error:
            raise FormatError(f"Avro record does not fit its schema: {error}"[:200]) from error
    if stream.tell() != len(block):
        raise FormatError(f"Avro block has {len(block) - stream.tell()} bytes too many")
