"""Tables of versions 6 and 8, made of one of version 9 that hoodoo wrote.

What those versions write differently is done to the files: the place and the names of the timeline,
commits as JSON, the archive, properties, and log files that carry the instant of their base file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from hoodoo.format import properties as properties_codec
from hoodoo.format.avro import container
from hoodoo.format.log.blocks import Block, BlockType, HeaderKey, encode_blocks
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline import records
from hoodoo.format.timeline.records import to_record
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata, ReplaceCommitMetadata
from hoodoo.model.files import BaseFile, LogFile, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.storage.storage import Storage

_MODELS = "org.apache.hudi.common.model."
_PAYLOADS = {
    "COMMIT_TIME_ORDERING": f"{_MODELS}OverwriteWithLatestAvroPayload",
    "EVENT_TIME_ORDERING": f"{_MODELS}DefaultHoodieRecordPayload",
}
_STRATEGIES = {
    "COMMIT_TIME_ORDERING": "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    "EVENT_TIME_ORDERING": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
}
_CLASSES = {
    "SIMPLE": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "COMPLEX": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "NON_PARTITION": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
_NEW = TimelinePaths.of(2)


def make_version_8(storage: Storage) -> None:
    """Turn a table of version 9 into one of version 8."""
    raw = properties_codec.parse(storage.read(paths.PROPERTIES))
    mode = raw["hoodie.record.merge.mode"]
    raw |= {"hoodie.table.version": "8", "hoodie.table.initial.version": "8"}
    raw["hoodie.record.merge.strategy.id"] = _STRATEGIES[mode]
    raw["hoodie.compaction.payload.class"] = _PAYLOADS[mode]
    if "hoodie.table.ordering.fields" in raw:
        raw["hoodie.table.precombine.field"] = raw.pop("hoodie.table.ordering.fields")
    _put_properties(storage, raw)


def make_version_6(storage: Storage, *, archive_count: int = 0) -> None:
    """Turn a table of version 9 into one of version 6; its first instants are archived.

    It has no metadata table then: `name_metadata_table` gives it one.
    """
    names = _rename_logs(storage)
    states = sorted(_timeline(storage), key=lambda each: each[0].requested_time)
    times = sorted({instant.requested_time for instant, _ in states})[:archive_count]
    leaving = [(instant, data) for instant, data in states if instant.requested_time in times]
    for instant, data in states:
        if instant.requested_time not in times:
            name = instant_name(instant, layout=1)
            storage.create(f"{paths.META}/{name}", _to_json(instant, data, names))
    for entry in list(storage.list(_NEW.active, recursive=True)):
        storage.delete(entry.path)
    if leaving:
        archive = f"{paths.META}/archived/.commits_.archive.1_1-0-1"
        storage.create(archive, encode_archive(leaving))
    raw = properties_codec.parse(storage.read(paths.PROPERTIES))
    mode = raw.pop("hoodie.record.merge.mode")
    generator = raw.pop("hoodie.table.keygenerator.type")
    raw |= {
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.archivelog.folder": "archived",
        "hoodie.compaction.payload.class": _PAYLOADS[mode],
        "hoodie.table.keygenerator.class": _CLASSES[generator],
    }
    if "hoodie.table.ordering.fields" in raw:
        raw["hoodie.table.precombine.field"] = raw.pop("hoodie.table.ordering.fields")
    for entry in list(storage.list(paths.METADATA_TABLE, recursive=True)):
        storage.delete(entry.path)
    for key in ("initial.version", "format", "metadata.partitions", "metadata.partitions.inflight"):
        raw.pop(f"hoodie.table.{key}", None)
    for key in ("path", "history.path"):
        raw.pop(f"hoodie.timeline.{key}", None)
    _put_properties(storage, raw)


def name_metadata_table(storage: Storage, *partitions: str) -> None:
    """Give a table a metadata table that nobody can read: an upgrade does not need to."""
    raw = properties_codec.parse(storage.read(paths.PROPERTIES))
    raw["hoodie.table.metadata.partitions"] = ",".join(partitions)
    _put_properties(storage, raw)
    for name in ("hoodie.properties", "timeline/00000000000000000.deltacommit.requested"):
        storage.create(f"{paths.METADATA_TABLE}/.hoodie/{name}", b"")


def _put_properties(storage: Storage, raw: dict[str, str]) -> None:
    storage.put(paths.PROPERTIES, properties_codec.serialise(raw))


def _timeline(storage: Storage) -> Iterable[tuple[Instant, bytes]]:
    for entry in storage.list(_NEW.active):
        instant = parse_instant(entry.path.rpartition("/")[2], layout=2)
        if instant is not None:
            yield instant, storage.read(entry.path)


def _to_json(instant: Instant, data: bytes, names: dict[str, str]) -> bytes:
    """Commits are JSON in version 6, and name log files as that version does."""
    kind = codec.KINDS.get((instant.action, instant.state))
    if not data or kind not in (CommitMetadata, ReplaceCommitMetadata):
        return data
    text = json.dumps(to_record(codec.decode(data, instant.action, instant.state)), indent=2)
    for new, old in names.items():
        text = text.replace(new, old)
    return text.encode()


def _rename_logs(storage: Storage) -> dict[str, str]:
    """Give log files the instant of their base file, and a version of their own; new -> old."""
    files = []
    for entry in list(storage.list("", recursive=True)):
        directory, _, name = entry.path.rpartition("/")
        file = parse_data_file(PartitionPath(directory), name, entry.size_bytes)
        if file is not None and not directory.startswith(paths.META):
            files.append(file)
    bases = [file for file in files if isinstance(file, BaseFile)]
    versions: dict[str, int] = {}
    names: dict[str, str] = {}
    logs = [file for file in files if isinstance(file, LogFile)]
    for log in sorted(logs, key=lambda log: log.name.instant_time):
        older = [
            base.name.requested_time
            for base in bases
            if (base.partition, base.name.file_id) == (log.partition, log.name.file_id)
            and base.name.requested_time < log.name.instant_time
        ]
        version = versions[log.name.file_id] = versions.get(log.name.file_id, 0) + 1
        old = f".{log.name.file_id}_{max(older)}.log.{version}_{log.name.token}"
        storage.create(paths.join(log.partition, old), storage.read(log.path))
        storage.delete(log.path)
        names[str(log.name)] = old
    return names


# -- the archive ---------------------------------------------------------------------------------

_PLACES = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTA_COMMIT: "hoodieCommitMetadata",
    Action.REPLACE_COMMIT: "hoodieReplaceCommitMetadata",
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
}
_KINDS = {
    "hoodieCommitMetadata": "CommitMetadata",
    "hoodieCleanMetadata": "CleanMetadata",
    "hoodieRollbackMetadata": "RollbackMetadata",
}
_INTS = struct.Struct(">ii")


def encode_archive(states: Sequence[tuple[Instant, bytes]]) -> bytes:
    """A file of the archived timeline of version 6 with these instants, each in its states."""
    schema = _archive_schema()
    bodies = [container.encode_record(schema, _entry(instant, data)) for instant, data in states]
    content = _INTS.pack(3, len(bodies))
    content += b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    header = {HeaderKey.INSTANT_TIME: states[-1][0].requested_time, HeaderKey.SCHEMA: schema}
    return encode_blocks([Block(BlockType.AVRO_DATA, header, content)])


def _entry(instant: Instant, data: bytes) -> dict[str, Any]:
    place = _PLACES.get(instant.action) if instant.is_completed else None
    entry: dict[str, Any] = {
        "commitTime": instant.requested_time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": _transition(instant),
    }
    if place in _KINDS:
        entry[place] = to_record(codec.decode(data, instant.action, State.COMPLETED))
    return entry


def _transition(instant: Instant) -> InstantTime | None:
    return instant.completion_time if instant.is_completed else None


def _archive_schema() -> str:
    def optional(kind: Any) -> list[Any]:
        return ["null", kind]

    texts = ("commitTime", "actionType", "actionState", "stateTransitionTime")
    fields = [{"name": name, "type": optional("string"), "default": None} for name in texts]
    for place, kind in _KINDS.items():
        record_schema = json.loads(records.schema_json(kind))
        fields.append({"name": place, "type": optional(record_schema), "default": None})
    return json.dumps({"type": "record", "name": "HoodieArchivedMetaEntry", "fields": fields})
