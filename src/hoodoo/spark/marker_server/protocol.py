"""What the marker server and its clients say to each other: JSON over HTTP/1.1.

    POST   /v1/markers    {"markers": [...]}     200 once all of them are durable
    GET    /v1/markers                           200 {"markers": [...]}
    DELETE /v1/markers                           200 once the marker directory is gone
    GET    /v1/conflict                          200 {"conflict": null or a conflict}

Each request has the token of the write in a header. Other answers: 400, 401, 404, 405, 408, 411,
413 and 5xx, with {"error": text}; 409 with {"conflict": ...} instead of taking any marker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodoo.errors import (
    CommitFailed,
    EarlyConflict,
    HeartbeatLost,
    HoodooError,
    PlanCancelled,
    WriteConflict,
)

TOKEN_HEADER = "x-hoodoo-token"
MARKERS_PATH = "/v1/markers"
CONFLICT_PATH = "/v1/conflict"

_KINDS = {
    kind.__name__: kind for kind in (WriteConflict, EarlyConflict, HeartbeatLost, PlanCancelled)
}

MOST_BODY_BYTES = 1 << 20
MOST_MARKERS = 5_000
"""In one request."""


def encode_conflict(error: HoodooError) -> dict[str, object]:
    """An error that ends the write, as JSON has it."""
    conflict: dict[str, object] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, WriteConflict):
        conflict |= {
            "instant": error.instant,
            "others": list(error.conflicting_instants),
            "file_groups": list(error.file_groups),
        }
    return conflict


def decode_conflict(conflict: Mapping[str, Any]) -> HoodooError:
    """The error again, with all its fields."""
    message = str(conflict["message"])
    kind: type[CommitFailed] = _KINDS.get(str(conflict["kind"]), CommitFailed)
    if issubclass(kind, WriteConflict):
        return kind(
            message,
            instant=conflict["instant"],
            conflicting_instants=tuple(conflict["others"]),
            file_groups=tuple(conflict["file_groups"]),
        )
    return kind(message)
