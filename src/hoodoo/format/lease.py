"""`.hoodie/.locks/table_lock.json`: the lease by which one writer at a time holds a table.

{"expired":false,"validUntil":1767225600000,"owner":"b3f1c2d4-0000-4000-8000-000000000001"}

expired      true once the owner gave it up; it never turns false again for the same owner
validUntil   milliseconds since 1970 by the owner's clock; others may take it some time later
owner        any text; Apache Hudi writes a uuid

All members must be there, and other ones are ignored, as in Apache Hudi. The object is only ever
changed by conditional writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from hoodoo.errors import FormatError

_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a lock, and until when unless it is renewed."""

    owner: str
    valid_until_ms: int
    expired: bool = False


def encode(lease: Lease) -> bytes:
    """The object's bytes, as Apache Hudi writes them."""
    members = {"expired": lease.expired, "validUntil": lease.valid_until_ms, "owner": lease.owner}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> Lease:
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
