"""Avro schema JSON read into a tree of types, each with the Arrow type that holds its values.

Follows the Avro specification: names and namespaces, references to named types, logical types
that are ignored where they are unknown or do not fit. Supported are the types a table can have:
records, arrays, maps, primitives, and unions of one type with null, in either order. Other unions
are for those who ask for them: no table has any. Schemas come from disk: whatever they hold, the
outcome is a tree of bounded size or a typed error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodoo.errors import FormatError, UnsupportedFeature
from hoodoo.format.arrow_types import COMMENT, MAX_PRECISION, fixed_size_of

_MAX_DEPTH = 64
_MAX_NODES = 20_000
_MAX_BRANCHES = 127  # an Arrow union has no more type codes

PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
LOGICAL_TYPES = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type: its Avro name in `kind` ("int", "record", ...), and what belongs to the kind."""

    kind: str
    arrow: pa.DataType
    fields: tuple[AvroField, ...] = ()  # of a record, a union; an array's or map's only one
    size: int = 0  # of a fixed
    symbols: tuple[str, ...] = ()  # of an enum


@dataclass(frozen=True, slots=True)
class AvroField:
    """A place for values of a type, in a union with null or not."""

    type: AvroType
    arrow: pa.Field
    in_union: bool = False
    branch: int = 0  # of the type in its union

    @property
    def nullable(self) -> bool:
        return bool(self.arrow.nullable)


_NULL = AvroType("null", pa.null())
_PRIMITIVE_TYPES = {kind: AvroType(kind, arrow) for kind, arrow in PRIMITIVES.items()}


def parse_record(schema_json: str, *, unions: bool = False) -> AvroType:
    """The record type that a schema defines; with `unions`, those of several types are unions."""
    return _Reader(unions).type_of(load_record(schema_json), "", "")


def load_record(schema_json: str) -> dict[str, Any]:
    """The JSON tree of a record schema, checked no further than its list of fields."""
    try:
        tree = json.loads(schema_json)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"Avro schema is not JSON: {error}") from None
    if not isinstance(tree, dict) or tree.get("type") not in ("record", "error"):
        raise FormatError("Avro schema is not a record")
    if not isinstance(tree.get("fields"), list):
        raise FormatError("Avro schema has no list of fields")
    return tree


class _Reader:
    """Reads one schema: knows the named types met so far, and how much was built."""

    def __init__(self, unions: bool) -> None:
        self._unions = unions
        # Each named type and its size; None while its definition is being read.
        self._named_types: dict[str, tuple[AvroType, int] | None] = {}
        self._depth = 0
        self._nodes = 0

    def type_of(self, tree: Any, namespace: str, path: str) -> AvroType:
        self._grow(1, path)
        if isinstance(tree, str):
            return self._reference(tree, namespace, path)
        if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
            raise _bad(path, f"is not a type: {_short(tree)}")
        if self._depth == _MAX_DEPTH:
            raise _bad(path, f"nests deeper than {_MAX_DEPTH}")
        self._depth += 1
        type_ = self._definition(tree["type"], tree, namespace, path)
        self._depth -= 1
        return type_

    def _grow(self, nodes: int, path: str) -> None:
        # A named type may be used many times over: a short text can stand for a huge type.
        self._nodes += nodes
        if self._nodes > _MAX_NODES:
            raise _bad(path, f"makes more than {_MAX_NODES} fields")

    def _reference(self, name: str, namespace: str, path: str) -> AvroType:
        if name in _PRIMITIVE_TYPES:
            return _PRIMITIVE_TYPES[name]
        if name == "null":
            raise UnsupportedFeature(f"Avro schema: {_at(path)} can only be null")
        full_name = f"{namespace}.{name}" if namespace else name
        full_name = full_name if full_name in self._named_types else name
        if full_name not in self._named_types:
            raise _bad(path, f"has the unknown type {_short(name)}")
        named_type = self._named_types[full_name]
        if named_type is None:
            raise UnsupportedFeature(f"Avro schema: {_at(path)} is recursive")
        self._grow(named_type[1], path)
        return named_type[0]

    def _definition(self, kind: str, tree: dict[str, Any], namespace: str, path: str) -> AvroType:
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type(kind, tree, namespace, path)
        if kind == "array":
            item = self._field("element", tree.get("items"), namespace, f"{path}[]")
            return AvroType("array", pa.list_(item.arrow), (item,))
        if kind == "map":
            value = self._field("value", tree.get("values"), namespace, f"{path}{{}}")
            return AvroType("map", pa.map_(pa.string(), value.arrow), (value,))
        plain = self._reference(kind, namespace, path)
        logical = tree.get("logicalType")
        if not isinstance(logical, str):
            return plain
        if kind == "bytes":
            return AvroType("bytes", _decimal(tree, None, path) or plain.arrow)
        if kind == "long" and logical.endswith("timestamp-nanos"):
            raise UnsupportedFeature(f"Avro schema: {_at(path)} has the logical type {logical}")
        # A logical type that is unknown, or on a wrong type, does not count: so Avro says.
        arrow = LOGICAL_TYPES.get((kind, logical))
        return AvroType(kind, arrow) if arrow else plain

    def _named_type(self, kind: str, tree: dict[str, Any], namespace: str, path: str) -> AvroType:
        name, own = tree.get("name"), tree.get("namespace", namespace)
        if not isinstance(name, str) or not name or not isinstance(own, str | None):
            raise _bad(path, "has a bad name")
        full_name = name if "." in name or not own else f"{own}.{name}"
        if full_name in self._named_types:
            raise _bad(path, f"defines {_short(full_name)} again")
        self._named_types[full_name] = None
        before = self._nodes
        if kind == "enum":
            type_ = _enum(tree, path)
        elif kind == "fixed":
            type_ = _fixed_type(tree, path)
        else:
            type_ = self._record(tree, full_name.rpartition(".")[0], path)
        self._named_types[full_name] = (type_, self._nodes - before)
        return type_

    def _record(self, tree: dict[str, Any], namespace: str, path: str) -> AvroType:
        fields = tree.get("fields")
        if not isinstance(fields, list) or not fields:
            # Parquet has no struct without fields. As an array's item it would take no bytes,
            # and a few bytes could then claim any number of items.
            raise _bad(path, "is a record without fields")
        fields_by_name: dict[str, AvroField] = {}
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(name, str) or not name or name in fields_by_name:
                raise _bad(path, f"has a bad or repeated field {_short(name)}")
            inner = f"{path}.{name}" if path else name
            fields_by_name[name] = self._field(
                name, field.get("type"), namespace, inner, field.get("doc")
            )
        arrow = pa.struct([field.arrow for field in fields_by_name.values()])
        return AvroType("record", arrow, tuple(fields_by_name.values()))

    def _field(
        self, name: str, tree: Any, namespace: str, path: str, doc: object = None
    ) -> AvroField:
        in_union, nullable, branch = isinstance(tree, list), False, 0
        if isinstance(tree, list) and self._unions and len(tree) > 2:
            type_ = self._union(tree, namespace, path)
            return AvroField(type_, pa.field(name, type_.arrow))
        if isinstance(tree, list):
            is_null = [one in ("null", {"type": "null"}) for one in tree]
            if is_null.count(False) != 1 or len(tree) > 2:
                raise UnsupportedFeature(f"Avro schema: {_at(path)} is a union of several types")
            nullable, branch = True in is_null, is_null.index(False)
            tree = tree[branch]
        type_ = self.type_of(tree, namespace, path)
        comment = doc.encode("utf-8", "replace") if isinstance(doc, str) else b""
        try:
            arrow = pa.field(name, type_.arrow, nullable, {COMMENT: comment} if comment else None)
        except UnicodeEncodeError:
            raise _bad(path, "has a name that is not text") from None
        return AvroField(type_, arrow, in_union, branch)

    def _union(self, branches: list[Any], namespace: str, path: str) -> AvroType:
        """A union of several types: dense in Arrow, the type code being the branch."""
        if len(branches) > _MAX_BRANCHES:
            raise _bad(path, f"is a union of more than {_MAX_BRANCHES} types")
        fields = []
        for tree in branches:
            name = tree if isinstance(tree, str) else _name_of(tree)
            type_ = _NULL if name == "null" else self.type_of(tree, namespace, path)
            fields.append(AvroField(type_, pa.field(name, type_.arrow)))
        if len({field.arrow.name for field in fields}) < len(fields):
            raise _bad(path, "is a union that has a type twice")
        return AvroType("union", pa.dense_union([field.arrow for field in fields]), tuple(fields))


def _name_of(tree: Any) -> str:
    """A union's name for one of its types: that of a named type, or the word for the type."""
    name = tree.get("name", tree.get("type")) if isinstance(tree, dict) else None
    return name.rpartition(".")[2] if isinstance(name, str) else "?"


def _enum(tree: dict[str, Any], path: str) -> AvroType:
    symbols = tree.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
        raise _bad(path, "is an enum without a list of symbols")
    try:
        pa.array(symbols, pa.string())
    except UnicodeEncodeError:
        raise _bad(path, "has a symbol that is not text") from None
    return AvroType("enum", pa.string(), symbols=tuple(symbols))


def _fixed_type(tree: dict[str, Any], path: str) -> AvroType:
    size = tree.get("size")
    if type(size) is not int or not 0 < size < 2**31:
        raise _bad(path, f"is a fixed of size {_short(size)}")
    return AvroType("fixed", _decimal(tree, size, path) or pa.binary(size), size=size)


def _decimal(tree: dict[str, Any], size: int | None, path: str) -> pa.DataType | None:
    """The decimal type, or None where there is none or it is invalid: then it does not count."""
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    if tree.get("logicalType") != "decimal" or type(precision) is not int or type(scale) is not int:
        return None
    if precision < 1 or not 0 <= scale <= precision:
        return None
    if precision > MAX_PRECISION:
        raise UnsupportedFeature(f"Avro schema: {_at(path)} has more than {MAX_PRECISION} digits")
    if size is not None and fixed_size_of(precision) > size:
        return None
    return pa.decimal128(precision, scale)


def _bad(path: str, what: str) -> FormatError:
    return FormatError(f"Avro schema: {_at(path)} {what}")


def _at(path: str) -> str:
    return f"field {_short(path)}" if path else "the record"


def _short(value: object) -> str:
    text = str(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 100 else f"{text[:100]}..."
