"""`index.json`: which indexes a table has, and of which columns.

    {"indexDefinitions": {name: {"indexName", "indexType", "indexFunction", "sourceFields": [...],
                                 "indexOptions": {...}, "version"}}}

The name is that of the metadata table's partition. What others wrote into it is kept as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hoodoo.errors import FormatError

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


def _definitions(data: bytes) -> dict[str, Any]:
    try:
        whole = json.loads(data)
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from None
    found = whole.get(_ALL) if isinstance(whole, dict) else None
    if not isinstance(found, dict):
        raise FormatError(f"no {_ALL} in it")
    return found


def _encode(definitions: Mapping[str, Any]) -> bytes:
    return json.dumps({_ALL: definitions}, indent=2).encode()
