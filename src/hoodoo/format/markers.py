"""Contents of marker files: completion and finalize markers, and batches of file markers.

The markers of what is done lie in `completion/` and `finalize/` below `.hoodie/.aux/hoodoo`:

    {"version":1,"checksum":"9f0c...","body":{...}}

version     1; others are refused
checksum    SHA-256, in hex, of the body as JSON without spaces, members sorted

Body of a completion marker: `handle`, its name; `digest`, null or `rows` and `hashes` of what it
was given; `stats`, of each file that it wrote. Of a finalize marker: `epoch`, of the attempt at the
instant; `stats` of all files, null until they are final; `rounds`, how often strays were swept.

Stats have the fields of Apache Hudi's commit metadata; those with their usual value are left out.

Markers of data files may come in batches, in the files `MARKERS.type` and `MARKERS<n>`:

    MARKERS.type    TIMELINE_SERVER_BASED                                 no line break
    MARKERS<n>      <partition>/<data file name>.marker.<KIND>\\n          one line per marker

Text is UTF-8. Without partitions the file name stands alone. A line may hold several markers:
Apache Hudi's marker server, restarted in the middle of a write, puts commas between those that it
had before, and nothing between the last of them and the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from hoodoo.errors import FormatError, InputError, UnsupportedVersion
from hoodoo.format.timeline.records import from_record, to_record
from hoodoo.model.commit import WriteStat
from hoodoo.model.names import MarkerName, parse_marker
from hoodoo.model.paths import join

# -- batches of data file markers ------------------------------------------------------------------


TYPE_FILE = "MARKERS.type"
TYPE = b"TIMELINE_SERVER_BASED"

_PREFIX = "MARKERS"
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")  # those that Java knows
# A partition may be called like the end of a marker; a slash follows it.
_MARKER = re.compile(r".+?\.marker\.(?:CREATE|MERGE|APPEND)(?!/)")


@dataclass(frozen=True, slots=True)
class MarkerBatch:
    """The markers of one file, and what in it is no marker."""

    markers: tuple[MarkerName, ...]
    unreadable: tuple[str, ...] = ()


def batch_name(number: int) -> str:
    """The name of a batch; Apache Hudi reads the number as a 32-bit integer."""
    return f"{_PREFIX}{number}"


def is_batch(path: str) -> bool:
    """Whether Apache Hudi takes the file at this path below a marker directory for a batch."""
    return path.startswith(_PREFIX) and path != TYPE_FILE and "/" not in path


def parse_path(path: str) -> MarkerName | None:
    """The marker at a path below a marker directory, or None; only the last part is parsed."""
    partition, _, name = path.rpartition("/")
    marker = parse_marker(name)
    return marker and MarkerName(join(partition, marker.data_file), marker.kind)


def encode_batch(markers: Iterable[MarkerName]) -> bytes:
    """The bytes of a batch. Raises `InputError` for a marker that does not fit on one line."""
    lines = [str(marker).encode() for marker in markers]
    for line in lines:
        if _LINE_BREAK.search(line):
            raise InputError(
                f"the marker {line.decode()!r} has a line break; "
                "such partitions need hoodie.write.markers.type=direct"
            )
    return b"".join(line + b"\n" for line in lines)


def decode_batch(data: bytes) -> MarkerBatch:
    """What a batch says. Damage is told, not raised: a writer may have died over the file."""
    markers: list[MarkerName] = []
    unreadable: list[str] = []
    for raw in _LINE_BREAK.split(data):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            unreadable.append(repr(raw))
            continue
        end = 0
        for match in _MARKER.finditer(line):
            marker = parse_path(match[0].removeprefix(",") if end else match[0])
            if marker is None:
                break
            markers.append(marker)
            end = match.end()
        if line[end:]:
            unreadable.append(line[end:])
    return MarkerBatch(tuple(markers), tuple(unreadable))


# -- completion and finalize markers ---------------------------------------------------------------


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
class CompletionMarker:
    """What one handle was given, and what it wrote."""

    handle: str
    digest: Digest | None
    stats: tuple[WriteStat, ...]


@dataclass(frozen=True, slots=True)
class FinalizeMarker:
    """A write that takes no more stats from its handles; None until it is known what stays."""

    epoch: int
    stats: tuple[WriteStat, ...] | None = None
    rounds: int = 0


def encode_completion(completion: CompletionMarker) -> bytes:
    """The bytes of a completion marker."""
    digest = completion.digest
    body = {
        "handle": completion.handle,
        "digest": {"rows": digest.rows, "hashes": digest.hashes} if digest else None,
        "stats": _plain_stats(completion.stats),
    }
    return _add_checksum(body)


def decode_completion(data: bytes) -> CompletionMarker:
    """What a completion marker says. Raises `FormatError`."""
    match _check_checksum(data):
        case {"handle": str(handle), "digest": None, "stats": list(stats)}:
            return CompletionMarker(handle, None, _parse_stats(stats))
        case {
            "handle": str(handle),
            "digest": {"rows": int(rows), "hashes": int(hashes)},
            "stats": list(stats),
        }:
            return CompletionMarker(handle, Digest(rows, hashes), _parse_stats(stats))
    raise FormatError("not a completion marker")


def encode_final(final: FinalizeMarker) -> bytes:
    """The bytes of a finalize marker."""
    stats = None if final.stats is None else _plain_stats(final.stats)
    return _add_checksum({"epoch": final.epoch, "stats": stats, "rounds": final.rounds})


def decode_final(data: bytes) -> FinalizeMarker:
    """What a finalize marker says. Raises `FormatError`."""
    match _check_checksum(data):
        case {"epoch": int(epoch), "stats": None, "rounds": int(rounds)}:
            return FinalizeMarker(epoch, None, rounds)
        case {"epoch": int(epoch), "stats": list(stats), "rounds": int(rounds)}:
            return FinalizeMarker(epoch, _parse_stats(stats), rounds)
    raise FormatError("not a finalize marker")


def _plain_stats(stats: tuple[WriteStat, ...]) -> list[dict[str, Any]]:
    usual = to_record(WriteStat())
    records = map(to_record, stats)
    return [{k: v for k, v in record.items() if v != usual[k]} for record in records]


def _parse_stats(records: list[Any]) -> tuple[WriteStat, ...]:
    return tuple(from_record(WriteStat, record) for record in records)


def _add_checksum(body: dict[str, Any]) -> bytes:
    document = {"version": _VERSION, "checksum": _checksum(body), "body": body}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


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
