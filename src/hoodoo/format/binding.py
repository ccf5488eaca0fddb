"""Values <-> records: one rule for every dataclass, no mapping written by hand.

The dataclass `CommitMetadata` is the record `HoodieCommitMetadata`; an attribute is the field
of the same name in camel case; type hints say what a field may hold. A record may come from
Avro or from JSON. Fields that we do not know are passed over. Where a field is absent, or null
though the hint has no None, the attribute's default stands in.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from hoodoo.errors import FormatError
from hoodoo.format import records

T = TypeVar("T")
Convert = Callable[[Any], Any]

_INT64 = range(-(2**63), 2**63)


class _Bound(NamedTuple):
    """How one field travels."""

    field: str
    attribute: str
    read: Convert
    write: Convert | None  # None: the attribute's value goes as it is
    is_optional: bool
    has_default: bool


def from_record(cls: type[T], record: object) -> T:
    """The value of a record that was decoded from Avro or JSON."""
    if not isinstance(record, dict):
        raise FormatError(f"{cls.__name__}: expected a record, found {_kind(record)}")
    values = {}
    for bound in _bounds(cls):
        value = record.get(bound.field)
        if value is not None:
            values[bound.attribute] = bound.read(value)
        elif bound.is_optional and bound.field in record:
            values[bound.attribute] = None
        elif not bound.has_default:
            raise FormatError(f"{cls.__name__}: {bound.field} is missing")
    return cls(**values)


def to_record(value: Any) -> dict[str, Any]:
    """The record of a value, ready for Avro."""
    record = {}
    for bound in _bounds(type(value)):
        attribute_value = getattr(value, bound.attribute)
        record[bound.field] = (
            bound.write(attribute_value)
            if bound.write and attribute_value is not None
            else attribute_value
        )
    return record


_BOUNDS: dict[type[Any], tuple[_Bound, ...]] = {}


def _bounds(cls: type[Any]) -> tuple[_Bound, ...]:
    """How the fields of a class travel; worked out once."""
    if cls not in _BOUNDS:
        _BOUNDS[cls] = _bind(cls)
    return _BOUNDS[cls]


def _bind(cls: type[Any]) -> tuple[_Bound, ...]:
    hints = get_type_hints(cls)
    declared: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}
    bounds = []
    for name, attribute in records.attributes(cls.__name__):
        hint, is_optional = _without_none(hints[attribute])
        default = declared[attribute]
        bounds.append(
            _Bound(
                name,
                attribute,
                _reader(hint, f"{cls.__name__}.{name}"),
                _writer(hint),
                is_optional,
                default.default is not MISSING or default.default_factory is not MISSING,
            )
        )
    return tuple(bounds)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (branch for branch in get_args(hint) if branch is not types.NoneType)
        return inner, True
    return hint, False


def _plain(hint: Any) -> Any:
    """The type behind a `NewType`."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _reader(hint: Any, where: str) -> Convert:
    """A function that checks and converts what a field holds."""
    hint, is_optional = _without_none(hint)
    hint = _plain(hint)
    if get_origin(hint) is tuple:
        read = _list_reader(_reader(get_args(hint)[0], where), where)
    elif get_origin(hint) is Mapping:
        read = _map_reader(_reader(get_args(hint)[1], where), where)
    elif is_dataclass(hint):

        def read(value: Any, of: Any = hint) -> Any:
            return from_record(of, value)

    else:
        read = _SCALARS[hint](where)
    return (lambda value: None if value is None else read(value)) if is_optional else read


def _list_reader(read: Convert, where: str) -> Convert:
    def read_list(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit(where, "a list", value)
        return tuple(map(read, value))

    return read_list


def _map_reader(read: Convert, where: str) -> Convert:
    def read_map(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(where, "a map", value)
        return {key: read(item) for key, item in value.items()}

    return read_map


def _text(where: str) -> Convert:
    def read_text(value: Any) -> Any:
        if not isinstance(value, str):
            raise _misfit(where, "text", value)
        return value

    return read_text


def _whole(where: str) -> Convert:
    def read_whole(value: Any) -> Any:
        if type(value) is not int or value not in _INT64:
            raise _misfit(where, "a whole number", value)
        return value

    return read_whole


def _number(where: str) -> Convert:
    def read_number(value: Any) -> Any:
        if type(value) not in (float, int):
            raise _misfit(where, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise _misfit(where, "a number", value) from None

    return read_number


def _truth(where: str) -> Convert:
    def read_truth(value: Any) -> Any:
        if type(value) is not bool:
            raise _misfit(where, "true or false", value)
        return value

    return read_truth


_SCALARS: dict[type, Callable[[str], Convert]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
}


def _misfit(where: str, expected: str, value: object) -> FormatError:
    return FormatError(f"{where}: expected {expected}, found {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__


def _writer(hint: Any) -> Convert | None:
    """A function that turns a field's value into lists, dicts and records; None for a scalar."""
    hint = _plain(_without_none(hint)[0])
    if is_dataclass(hint):
        return to_record
    if get_origin(hint) is tuple:
        write = _writer(get_args(hint)[0]) or _as_it_is
        return lambda items: [None if item is None else write(item) for item in items]
    if get_origin(hint) is Mapping:
        write = _writer(get_args(hint)[1]) or _as_it_is
        return lambda items: {
            key: None if item is None else write(item) for key, item in items.items()
        }
    return None


def _as_it_is(value: Any) -> Any:
    return value
