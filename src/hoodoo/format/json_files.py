"""Small JSON files: hoodoo's own objects, the lock's lease, and the definitions of indexes.

hoodoo's own files are JSON objects whose members are the fields of a value. Members that a value
does not know are ignored, and members that have a default may be absent, so that a newer release
may add some.

`index.json` says which indexes a table has, and of which columns:

    {"indexDefinitions": {name: {"indexName", "indexType", "indexFunction", "sourceFields": [...],
                                 "indexOptions": {...}, "version"}}}

The name is that of the metadata table's partition. What others wrote into it is kept as it is.

`.hoodie/.locks/table_lock.json` is the lease by which one writer at a time holds a table:

{"expired":false,"validUntil":1767225600000,"owner":"b3f1c2d4-0000-4000-8000-000000000001"}

expired      true once the owner gave it up; it never turns false again for the same owner
validUntil   milliseconds since 1970 by the owner's clock; others may take it some time later
owner        any text; Apache Hudi writes a uuid

All members must be there, and other ones are ignored, as in Apache Hudi. The object is only ever
changed by conditional writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hoodoo.errors import FormatError
from hoodoo.model.names import json_name

# -- objects of hoodoo's own -----------------------------------------------------------------------


T = TypeVar("T")
_Read = Callable[[object], object]


def encode(value: Any) -> bytes:
    """The JSON text of a dataclass of texts, numbers, enums and lists of texts."""
    return json.dumps(
        {json_name(field): _plain(getattr(value, field.name)) for field in fields(value)}
    ).encode()


def decode(data: bytes, kind: type[T]) -> T:
    """The value that a JSON text holds."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError("not a JSON object") from None
    if not isinstance(tree, dict):
        raise FormatError("not a JSON object")
    try:
        return kind(
            **{
                name: read(tree.get(member))
                for name, (member, read, may_be_absent) in _readers(kind).items()
                if member in tree or not may_be_absent
            }
        )
    except ValueError as error:
        raise FormatError(str(error)) from None


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


_READERS: dict[type[Any], dict[str, tuple[str, _Read, bool]]] = {}


def _readers(kind: type[Any]) -> dict[str, tuple[str, _Read, bool]]:
    """Each field: its member, what reads it, and whether it has a default; worked out once."""
    if kind not in _READERS:
        hints = get_type_hints(kind)
        _READERS[kind] = {
            field.name: (json_name(field), _reader(hints[field.name]), field.default is not MISSING)
            for field in fields(kind)
        }
    return _READERS[kind]


def _reader(hint: Any) -> _Read:
    """A function that gives what it is given if that is of this type, or raises ValueError."""
    if get_origin(hint) in (UnionType, Union):  # of a `NewType` it is the second
        read, may_be_none = _reader(get_args(hint)[0]), NoneType in get_args(hint)
        return lambda data: None if data is None and may_be_none else read(data)
    if get_origin(hint) is tuple:
        return _read_texts
    plain = getattr(hint, "__supertype__", hint)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return plain

    def read_plain(value: object) -> object:
        if type(value) is not plain:
            raise ValueError(f"{value!r} is not of type {plain.__name__}")
        return value

    return read_plain


def _read_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError(f"{value!r} is not a list of texts")


# -- the lease of the lock -------------------------------------------------------------------------


_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a lock, and until when unless it is renewed."""

    owner: str
    valid_until_ms: int
    expired: bool = False


def encode_lock_file(lease: Lease) -> bytes:
    """The object's bytes, as Apache Hudi writes them."""
    members = {"expired": lease.expired, "validUntil": lease.valid_until_ms, "owner": lease.owner}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def decode_lock_file(data: bytes) -> Lease:
    """What the object's bytes say. Raises `FormatError`."""
    try:
        tree = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise FormatError("the lease is not JSON") from None
    if not isinstance(tree, dict):
        raise FormatError("the lease is not a JSON object")
    match tree:
        case {"expired": bool(expired), "validUntil": int(until), "owner": str() | None as owner}:
            if until in _LONG and not isinstance(until, bool):
                return Lease(owner or "", until, expired)
    raise FormatError(f"a lease has expired, validUntil and owner; found {sorted(tree)}")


# -- definitions of indexes ------------------------------------------------------------------------


_ALL = "indexDefinitions"


def source_fields(data: bytes, index: str) -> tuple[str, ...] | None:
    """The columns of an index; None if it is not defined."""
    definition = _definitions(data).get(index)
    if definition is None:
        return None
    fields = definition.get("sourceFields") if isinstance(definition, dict) else None
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise FormatError(f"index {index} has no list of columns")
    return tuple(fields)


def is_by_partition(data: bytes, index: str) -> bool:
    """Whether a record index is one for each partition of the table."""
    definition = _definitions(data).get(index)
    options = definition.get("indexOptions") if isinstance(definition, dict) else None
    return isinstance(options, dict) and str(options.get("isPartitioned")).lower() == "true"


def define_column_stats(data: bytes | None, columns: Sequence[str]) -> bytes:
    """The file with statistics of these columns defined in it."""
    definition = {
        "indexName": "column_stats",
        "indexType": "column_stats",
        "indexFunction": "column_stats",
        "sourceFields": list(columns),
        "indexOptions": {},
        "version": "V2",
    }
    return _add(data, definition)


def define_record_index(data: bytes | None) -> bytes:
    """The file with a record index of the whole table defined in it."""
    definition = {
        "indexName": "record_index",
        "indexType": "record_index",
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {"isPartitioned": "false"},
        "version": "V1",
    }
    return _add(data, definition)


def _add(data: bytes | None, definition: Mapping[str, Any]) -> bytes:
    return _encode({**(_definitions(data) if data else {}), definition["indexName"]: definition})


def drop_definitions(data: bytes, indexes: Collection[str]) -> bytes:
    """The file without the definitions of these indexes; the same bytes if it has none of them."""
    definitions = _definitions(data)
    remainder = {name: each for name, each in definitions.items() if name not in indexes}
    return data if len(remainder) == len(definitions) else _encode(remainder)


def _definitions(data: bytes) -> dict[str, Any]:
    try:
        whole = json.loads(data)
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from None
    definitions = whole.get(_ALL) if isinstance(whole, dict) else None
    if not isinstance(definitions, dict):
        raise FormatError(f"no {_ALL} in it")
    return definitions


def _encode(definitions: Mapping[str, Any]) -> bytes:
    return json.dumps({_ALL: definitions}, indent=2).encode()
