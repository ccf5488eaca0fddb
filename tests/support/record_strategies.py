"""Hypothesis strategies for records, made from our schemas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from hoodoo.format.timeline import records

_TEXT = st.text(max_size=8)


def record_values(record: str) -> st.SearchStrategy[dict[str, Any]]:
    """Records as Avro decodes them, every field present."""
    return _values(json.loads(records.schema_json(record)), {})


def _values(schema: Any, names: dict[str, Any]) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*(_values(branch, names) for branch in schema))
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1)
        case "double":
            return st.floats(allow_nan=False)
        case "string":
            return _TEXT
        case "array":
            return st.lists(_values(schema["items"], names), max_size=2)
        case "map":
            return st.dictionaries(_TEXT, _values(schema["values"], names), max_size=2)
        case "record":
            fields = {field["name"]: _values(field["type"], names) for field in schema["fields"]}
            names[schema["name"]] = st.fixed_dictionaries(fields)
            return names[schema["name"]]
    return names[kind]
