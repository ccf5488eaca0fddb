"""Which Avro schemas we dare to decode with: a file brings its own, and the file may be bad.

A writer's schema is rebuilt from the attributes that decide the bytes; all else (defaults,
docs, logical types) is left out. It is refused if decoding by it could do harm:

    a record that contains itself      data could nest without end, and overflow the C stack
    null outside a union, no fields    a value of no bytes, which an array repeats for nothing
    more than 64 levels                likewise
"""

from __future__ import annotations

from typing import Any

from hoodoo.errors import FormatError

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
