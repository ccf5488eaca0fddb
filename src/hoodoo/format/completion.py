"""Markers of what is done: `completion/` and `finalize/` below `.hoodie/.aux/hoodoo`.

    {"version":1,"checksum":"9f0c...","body":{...}}

version     1; others are refused
checksum    SHA-256, in hex, of the body as JSON without spaces, members sorted

Body of a completion marker: `handle`, its name; `digest`, null or `rows` and `hashes` of what it
was given; `stats`, of each file that it wrote. Of a finalize marker: `epoch`, of the attempt at the
instant; `stats` of all files, null until they are final; `rounds`, how often strays were swept.

Stats have the fields of Apache Hudi's commit metadata; those with their usual value are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from hoodoo.errors import FormatError, UnsupportedVersion
from hoodoo.format.binding import from_record, to_record
from hoodoo.model.stats import WriteStat

_VERSION = 1
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Digest:
    """What a handle was given, in whichever order: how many rows, and the sum of their hashes."""

    rows: int = 0
    hashes: int = 0

    @classmethod
    def of(cls, hashes: pa.Array | pa.ChunkedArray) -> Digest:
        """The digest of rows with these 64-bit hashes."""
        total = np.sum(hashes.to_numpy(zero_copy_only=False).view(np.uint64), dtype=np.uint64)
        return cls(len(hashes), int(total))

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.hashes + other.hashes) & _MASK)


@dataclass(frozen=True, slots=True)
class Completion:
    """What one handle was given, and what it wrote."""

    handle: str
    digest: Digest | None
    stats: tuple[WriteStat, ...]


@dataclass(frozen=True, slots=True)
class Final:
    """A write that takes no more stats from its handles; None until it is known what stays."""

    epoch: int
    stats: tuple[WriteStat, ...] | None = None
    rounds: int = 0


def encode_completion(completion: Completion) -> bytes:
    """The bytes of a completion marker."""
    digest = completion.digest
    body = {
        "handle": completion.handle,
        "digest": {"rows": digest.rows, "hashes": digest.hashes} if digest else None,
        "stats": _plain_stats(completion.stats),
    }
    return _add_checksum(body)


def decode_completion(data: bytes) -> Completion:
    """What a completion marker says. Raises `FormatError`."""
    match _check_checksum(data):
        case {"handle": str(handle), "digest": None, "stats": list(stats)}:
            return Completion(handle, None, _parse_stats(stats))
        case {
            "handle": str(handle),
            "digest": {"rows": int(rows), "hashes": int(hashes)},
            "stats": list(stats),
        }:
            return Completion(handle, Digest(rows, hashes), _parse_stats(stats))
    raise FormatError("not a completion marker")


def encode_final(final: Final) -> bytes:
    """The bytes of a finalize marker."""
    stats = None if final.stats is None else _plain_stats(final.stats)
    return _add_checksum({"epoch": final.epoch, "stats": stats, "rounds": final.rounds})


def decode_final(data: bytes) -> Final:
    """What a finalize marker says. Raises `FormatError`."""
    match _check_checksum(data):
        case {"epoch": int(epoch), "stats": None, "rounds": int(rounds)}:
            return Final(epoch, None, rounds)
        case {"epoch": int(epoch), "stats": list(stats), "rounds": int(rounds)}:
            return Final(epoch, _parse_stats(stats), rounds)
    raise FormatError("not a finalize marker")


def _plain_stats(stats: tuple[WriteStat, ...]) -> list[dict[str, Any]]:
    usual = to_record(WriteStat())
    records = map(to_record, stats)
    return [{k: v for k, v in record.items() if v != usual[k]} for record in records]


def _parse_stats(records: list[Any]) -> tuple[WriteStat, ...]:
    return tuple(from_record(WriteStat, record) for record in records)


def _add_checksum(body: dict[str, Any]) -> bytes:
    sealed = {"version": _VERSION, "checksum": _checksum(body), "body": body}
    return json.dumps(sealed, separators=(",", ":"), ensure_ascii=False).encode()


def _check_checksum(data: bytes) -> Any:
    try:
        tree = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise FormatError("not JSON") from None
    match tree:
        case {"version": int(version)} if version != _VERSION:
            raise UnsupportedVersion(what="marker version", version=version)
        case {"version": int(), "checksum": str(checksum), "body": dict(body)}:
            if checksum == _checksum(body):
                return body
            raise FormatError("its checksum does not fit")
    raise FormatError("not a JSON object with version, checksum and body")


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode()).hexdigest()
