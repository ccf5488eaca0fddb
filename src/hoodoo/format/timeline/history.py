"""The archived timeline (layout 2): files of instants, and manifests that name the live ones.

_version_                          the number of the newest manifest, as text
manifest_<n>                       {"files": [{"fileName": "...", "fileLen": 3066}, ...]}
<minR>_<maxR>_<layer>.parquet      rows, one per instant, sorted by requested time:
    instantTime, completionTime    optional string
    action                         optional string, the action once completed
    metadata                       optional binary, the completed file's bytes as they were
    plan                           optional binary, the requested (or inflight) file's bytes
    version                        int32, 1
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hoodoo.errors import FormatError
from hoodoo.format.timeline import records
from hoodoo.model.instant import Action, InstantTime, is_instant_time

_RECORD = "LSMTimelineInstant"
_ROW_VERSION = 1
_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_THRIFT_LIMIT = 64 << 20
_ACTIONS = {action.value: action for action in Action}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """A completed instant that has left the active timeline, with the bytes of its files."""

    requested_time: InstantTime
    completion_time: InstantTime | None
    action: Action
    metadata: bytes | None = None
    plan: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One live file of the archived timeline."""

    file_name: str
    size_bytes: int


def encode_instants(instants: Iterable[ArchivedInstant]) -> bytes:
    """A Parquet file of instants, sorted by requested time."""
    rows = [
        {
            "instantTime": instant.requested_time,
            "completionTime": instant.completion_time,
            "action": instant.action.value,
            "metadata": instant.metadata,
            "plan": instant.plan,
            "version": _ROW_VERSION,
        }
        for instant in sorted(instants, key=lambda instant: instant.requested_time)
    ]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        compression="gzip",
        version="1.0",
        store_schema=False,
        use_dictionary=False,
        write_statistics=["instantTime"],  # those of metadata would repeat whole files
    ) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
        writer.add_key_value_metadata({"parquet.avro.schema": records.schema_json(_RECORD)})
    return bytes(sink.getvalue().to_pybytes())


def decode_instants(data: bytes) -> tuple[ArchivedInstant, ...]:
    """The instants of a Parquet file, in its order."""
    try:
        file = pq.ParquetFile(
            pa.BufferReader(data),
            thrift_string_size_limit=_THRIFT_LIMIT,
            thrift_container_size_limit=_THRIFT_LIMIT,
        )
        names = set(file.schema_arrow.names)
        missing = [name for name in _SCHEMA.names if name not in names]
        if missing:
            raise FormatError(f"archived instants without the columns {', '.join(missing)}")
        rows = file.read(columns=_SCHEMA.names).select(_SCHEMA.names).cast(_SCHEMA).to_pylist()
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        # Arrow reports a size that cannot be had as a MemoryError.
        raise FormatError(f"not a Parquet file of instants: {error}"[:200]) from error
    return tuple(map(_instant, rows))


def _instant(row: dict[str, object]) -> ArchivedInstant:
    requested_time, completion, action = row["instantTime"], row["completionTime"], row["action"]
    if not isinstance(requested_time, str) or not is_instant_time(requested_time):
        raise FormatError(f"archived instant with the time {requested_time!r}")
    if action not in _ACTIONS:
        raise FormatError(f"archived instant {requested_time} with the action {action!r}")
    return ArchivedInstant(
        requested_time=InstantTime(requested_time),
        completion_time=InstantTime(completion) if isinstance(completion, str) else None,
        action=_ACTIONS[str(action)],
        metadata=row["metadata"],  # type: ignore[arg-type]  # the cast made them bytes or None
        plan=row["plan"],  # type: ignore[arg-type]  # as above
    )


def encode_manifest(entries: Sequence[ManifestEntry]) -> bytes:
    """A manifest's bytes."""
    files = [{"fileName": entry.file_name, "fileLen": entry.size_bytes} for entry in entries]
    return json.dumps({"files": files}, indent=2).encode()


def decode_manifest(data: bytes) -> tuple[ManifestEntry, ...]:
    """The live files that a manifest names."""
    try:
        manifest = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"manifest is not JSON: {error}"[:200]) from error
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, list):
        raise FormatError("manifest without a list of files")
    return tuple(map(_entry, files))


def _entry(file: object) -> ManifestEntry:
    name, size = (
        (file.get("fileName"), file.get("fileLen")) if isinstance(file, dict) else (None, None)
    )
    if not isinstance(name, str) or type(size) is not int:
        raise FormatError(f"manifest entry {str(file)[:80]!r} without name and length")
    return ManifestEntry(name, size)


def encode_version(number: int) -> bytes:
    """The content of `_version_`."""
    return str(number).encode()


def decode_version(data: bytes) -> int:
    """The number of the newest manifest."""
    text = data.strip()
    if not text.isdigit() or len(text) > 18:
        raise FormatError(f"{data[:40]!r} is not a version number")
    return int(text)
