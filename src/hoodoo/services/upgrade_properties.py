"""What an upgrade to version 9 changes in `hoodie.properties`. Pure.

Version 9 tells by a mode how records merge. Older versions name a Java class, the payload class:
those that came with Apache Hudi stand for a mode, and are kept only as a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodoo.config import table as keys
from hoodoo.model.merge import MergeMode
from hoodoo.model.table import TableProperties, TableVersion

Changes = Mapping[str, str | None]
"""Property -> its new value; None removes it."""

_MODELS = "org.apache.hudi.common.model."
_PRECOMBINE = "hoodie.table.precombine.field"
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
_UNAVAILABLE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Payload:
    """What a payload class of Apache Hudi's stands for in version 9."""

    mode: MergeMode
    partial: str | None = None
    ordering: str | None = None
    delete: tuple[str, str] | None = None
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def merges_alike(self) -> bool:
        """Whether readers of either version make the same rows of the same logs."""
        return not (self.partial or self.delete or self.ordering)


_COMMIT, _EVENT = MergeMode.COMMIT_TIME_ORDERING, MergeMode.EVENT_TIME_ORDERING
_CHANGE = ("_change_operation_type", "d")
PAYLOADS: Mapping[str, Payload] = {
    f"{_MODELS}OverwriteWithLatestAvroPayload": Payload(_COMMIT),
    f"{_MODELS}DefaultHoodieRecordPayload": Payload(_EVENT),
    f"{_MODELS}EventTimeAvroPayload": Payload(_EVENT),
    f"{_MODELS}OverwriteNonDefaultsWithLatestAvroPayload": Payload(_COMMIT, "IGNORE_DEFAULTS"),
    f"{_MODELS}PartialUpdateAvroPayload": Payload(_EVENT, "IGNORE_DEFAULTS"),
    f"{_MODELS}AWSDmsAvroPayload": Payload(_COMMIT, delete=("Op", "D")),
    f"{_MODELS}debezium.MySqlDebeziumAvroPayload": Payload(
        _EVENT, ordering="_event_bin_file,_event_pos", delete=_CHANGE
    ),
    f"{_MODELS}debezium.PostgresDebeziumAvroPayload": Payload(
        _EVENT,
        "FILL_UNAVAILABLE",
        ordering="_event_lsn",
        delete=_CHANGE,
        more={_UNAVAILABLE: "__debezium_unavailable_value"},
    ),
}

_DEFAULTS = {
    _EVENT: f"{_MODELS}DefaultHoodieRecordPayload",
    _COMMIT: f"{_MODELS}OverwriteWithLatestAvroPayload",
}
"""What old writers took who were told of no class."""

_GENERATORS = {
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE_AVRO",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX_AVRO",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "TimestampBasedAvroKeyGenerator": "TIMESTAMP_AVRO",
    "CustomKeyGenerator": "CUSTOM",
    "CustomAvroKeyGenerator": "CUSTOM_AVRO",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION_AVRO",
    "GlobalDeleteKeyGenerator": "GLOBAL_DELETE",
    "GlobalAvroDeleteKeyGenerator": "GLOBAL_DELETE_AVRO",
    "AutoRecordGenWrapperKeyGenerator": "AUTO_RECORD",
    "AutoRecordGenWrapperAvroKeyGenerator": "AUTO_RECORD_AVRO",
    "SqlKeyGenerator": "SPARK_SQL",
    "UuidKeyGenerator": "SPARK_SQL_UUID",
    "MergeIntoKeyGenerator": "SPARK_SQL_MERGE_INTO",
}
_OWN_GENERATOR = "USER_PROVIDED"


def drop_metadata_table(properties: TableProperties) -> Changes:
    """What makes every reader list directories again."""
    there = (keys.METADATA_PARTITIONS.name, keys.METADATA_PARTITIONS_INFLIGHT.name)
    return {key: None for key in (*there, INDEX_DEFINITIONS) if key in properties.raw}


def upgrade_properties(properties: TableProperties) -> Changes:
    """All that a table of version 6 or 8 changes on its way to version 9."""
    raw = properties.raw
    changes: dict[str, str | None] = {
        keys.VERSION.name: str(TableVersion.NINE.value),
        keys.INITIAL_VERSION: raw.get(keys.INITIAL_VERSION, str(properties.version.value)),
    }
    if properties.version.timeline_layout != TableVersion.NINE.timeline_layout:
        changes[keys.LAYOUT.name] = str(TableVersion.NINE.timeline_layout)
        changes[keys.TIMELINE_PATH.name] = keys.TIMELINE_PATH.default
        if keys.HISTORY_PATH.name in raw:
            changes[keys.HISTORY_PATH.name] = keys.HISTORY_PATH.default
    changes |= _name_generator(properties)
    changes |= _merge_by_mode(properties)
    changes |= drop_metadata_table(properties)
    return {key: value for key, value in sorted(changes.items()) if raw.get(key) != value}


def _name_generator(properties: TableProperties) -> Changes:
    class_name = properties.raw.get(keys.KEY_GENERATOR_CLASS.name)
    if class_name is None:
        return {}
    kind = _GENERATORS.get(class_name.rpartition(".")[2], _OWN_GENERATOR)
    return {keys.KEY_GENERATOR.name: kind}


def _merge_by_mode(properties: TableProperties) -> Changes:
    raw = properties.raw
    payload_class = raw.get(keys.PAYLOAD_CLASS.name)
    ordering = raw.get(keys.ORDERING_FIELDS.name) or raw.get(_PRECOMBINE)
    changes: dict[str, str | None] = {
        _PRECOMBINE: None,
        _OLD_STRATEGY: None,
        keys.ORDERING_FIELDS.name: ordering,
        keys.MERGE_MODE.name: properties.merge.mode.value,
    }
    if payload_class is None and properties.version.payload_decides_merging:
        payload_class = _DEFAULTS.get(properties.merge.mode)
    payload = PAYLOADS.get(payload_class or "")
    if payload is None:
        if properties.merge.mode is not MergeMode.CUSTOM:
            return {**changes, keys.MERGE_STRATEGY.name: None}
        by_payload = payload_class is not None and properties.version.payload_decides_merging
        return changes | ({keys.MERGE_STRATEGY.name: PAYLOAD_STRATEGY} if by_payload else {})
    changes |= {
        keys.MERGE_MODE.name: payload.mode.value,
        keys.MERGE_STRATEGY.name: None,
        keys.PAYLOAD_CLASS.name: None,
        keys.LEGACY_PAYLOAD_CLASS.name: payload_class,
        **payload.more,
    }
    if payload.partial:
        changes[keys.PARTIAL_UPDATE_MODE.name] = payload.partial
    if payload.ordering:
        changes[keys.ORDERING_FIELDS.name] = payload.ordering
    if payload.delete:
        changes[keys.DELETE_FIELD.name], changes[keys.DELETE_MARKER.name] = payload.delete
    return changes
