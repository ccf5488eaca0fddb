"""Markers in batches: what the files `MARKERS.type` and `MARKERS<n>` hold.

    MARKERS.type    TIMELINE_SERVER_BASED                                 no line break
    MARKERS<n>      <partition>/<data file name>.marker.<KIND>\\n          one line per marker

Text is UTF-8. Without partitions the file name stands alone. A line may hold several markers:
Apache Hudi's marker server, restarted in the middle of a write, puts commas between those that it
had before, and nothing between the last of them and the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hoodoo.errors import InputError
from hoodoo.model.names import MarkerName, parse_marker
from hoodoo.model.paths import join

TYPE_FILE = "MARKERS.type"
TYPE = b"TIMELINE_SERVER_BASED"

_PREFIX = "MARKERS"
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")  # those that Java knows
# A partition may be called like the end of a marker; a slash follows it.
_MARKER = re.compile(r".+?\.marker\.(?:CREATE|MERGE|APPEND)(?!/)")


@dataclass(frozen=True, slots=True)
class Batch:
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


def decode_batch(data: bytes) -> Batch:
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
    return Batch(tuple(markers), tuple(unreadable))
