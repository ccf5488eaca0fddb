"""Small files of hoodoo's own, as JSON objects whose members are the fields of a value.

Members that a value does not know are ignored, so that a newer release may add some.
"""

from __future__ import annotations

import json
from dataclasses import fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hoodoo.errors import FormatError

T = TypeVar("T")


def encode(value: Any) -> bytes:
    """The JSON text of a dataclass of texts, numbers, enums and lists of texts."""
    return json.dumps(
        {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    ).encode()


def decode(data: bytes, kind: type[T]) -> T:
    """The value that a JSON text holds."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError("not a JSON object") from None
    if not isinstance(found, dict):
        raise FormatError("not a JSON object")
    hints = get_type_hints(kind)
    try:
        return kind(**{name: _typed(found.get(name), hint) for name, hint in hints.items()})
    except ValueError as error:
        raise FormatError(str(error)) from None


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _typed(found: object, hint: Any) -> object:
    """`found` if it is of this type. Raises ValueError."""
    if get_origin(hint) is UnionType:
        if found is None and NoneType in get_args(hint):
            return None
        return _typed(found, get_args(hint)[0])
    if get_origin(hint) is tuple:
        if isinstance(found, list) and all(isinstance(item, str) for item in found):
            return tuple(found)
        raise ValueError(f"{found!r} is not a list of texts")
    plain = getattr(hint, "__supertype__", hint)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return plain(found)
    if type(found) is not plain:
        raise ValueError(f"{found!r} is not of type {plain.__name__}")
    return found
