"""Small files of hoodoo's own, as JSON objects whose members are the fields of a value.

Members that a value does not know are ignored, and members that have a default may be absent, so
that a newer release may add some.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hoodoo.errors import FormatError

T = TypeVar("T")
_Read = Callable[[object], object]


def encode(value: Any) -> bytes:
    """The JSON text of a dataclass of texts, numbers, enums and lists of texts."""
    return json.dumps(
        {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
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
                name: read(tree.get(name))
                for name, (read, may_be_absent) in _readers(kind).items()
                if name in tree or not may_be_absent
            }
        )
    except ValueError as error:
        raise FormatError(str(error)) from None


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


_READERS: dict[type[Any], dict[str, tuple[_Read, bool]]] = {}


def _readers(kind: type[Any]) -> dict[str, tuple[_Read, bool]]:
    """The fields of a class: what reads each, and whether it has a default; worked out once."""
    if kind not in _READERS:
        hints = get_type_hints(kind)
        _READERS[kind] = {
            field.name: (_reader(hints[field.name]), field.default is not MISSING)
            for field in fields(kind)
        }
    return _READERS[kind]


def _reader(hint: Any) -> _Read:
    """A function that gives what it is given if that is of this type, or raises ValueError."""
    if get_origin(hint) is UnionType:
        read, may_be_none = _reader(get_args(hint)[0]), NoneType in get_args(hint)
        return lambda found: None if found is None and may_be_none else read(found)
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
