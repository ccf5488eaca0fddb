"""Whether a table can be brought to version 9, and what changes then.

`load_facts` reads from the table what decides about the upgrade. `plan_upgrade` and
`upgrade_properties` are pure: facts in, changes of `hoodie.properties` out. Version 9 names a merge
mode. Older versions name a Java class, the payload class: those that came with Apache Hudi stand
for a mode, and are kept only as a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hoodoo.concurrency.heartbeats import WriterStatus, load_writer_statuses
from hoodoo.config import table as keys
from hoodoo.errors import TimelineError, UnsupportedFeature, WriterAlive, add_error_source
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.parquet.base_file import open_parquet
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model import paths
from hoodoo.model.files import LogFile
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.merge import MergeMode
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.table import TableProperties, TableType, TableVersion
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.read.snapshot import take_snapshot
from hoodoo.services.upgrade.timeline import OldFile
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, parse_states

# -- changes of `hoodie.properties` -------------------------------------------------------------


PropertyChanges = Mapping[str, str | None]
"""Property -> its new value; None removes it."""

_MODELS = "org.apache.hudi.common.model."
_PRECOMBINE = "hoodie.table.precombine.field"
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
_UNAVAILABLE = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class PayloadClassRule:
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
PAYLOADS: Mapping[str, PayloadClassRule] = {
    f"{_MODELS}OverwriteWithLatestAvroPayload": PayloadClassRule(_COMMIT),
    f"{_MODELS}DefaultHoodieRecordPayload": PayloadClassRule(_EVENT),
    f"{_MODELS}EventTimeAvroPayload": PayloadClassRule(_EVENT),
    f"{_MODELS}OverwriteNonDefaultsWithLatestAvroPayload": PayloadClassRule(
        _COMMIT, "IGNORE_DEFAULTS"
    ),
    f"{_MODELS}PartialUpdateAvroPayload": PayloadClassRule(_EVENT, "IGNORE_DEFAULTS"),
    f"{_MODELS}AWSDmsAvroPayload": PayloadClassRule(_COMMIT, delete=("Op", "D")),
    f"{_MODELS}debezium.MySqlDebeziumAvroPayload": PayloadClassRule(
        _EVENT, ordering="_event_bin_file,_event_pos", delete=_CHANGE
    ),
    f"{_MODELS}debezium.PostgresDebeziumAvroPayload": PayloadClassRule(
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


def drop_metadata_table(properties: TableProperties) -> PropertyChanges:
    """What makes every reader list directories again."""
    there = (keys.METADATA_PARTITIONS.name, keys.METADATA_PARTITIONS_INFLIGHT.name)
    return {key: None for key in (*there, INDEX_DEFINITIONS) if key in properties.raw}


def upgrade_properties(properties: TableProperties) -> PropertyChanges:
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


def _name_generator(properties: TableProperties) -> PropertyChanges:
    class_name = properties.raw.get(keys.KEY_GENERATOR_CLASS.name)
    if class_name is None:
        return {}
    kind = _GENERATORS.get(class_name.rpartition(".")[2], _OWN_GENERATOR)
    return {keys.KEY_GENERATOR.name: kind}


def _merge_by_mode(properties: TableProperties) -> PropertyChanges:
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


# -- whether a table can be upgraded ------------------------------------------------------------


_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
_UNDOING = frozenset({Action.ROLLBACK, Action.RESTORE})
_OLD_HUDI = "with the release of Apache Hudi that wrote it"


@dataclass(frozen=True, slots=True)
class UpgradeFacts:
    """What decides about an upgrade."""

    properties: TableProperties
    timeline: Timeline
    pulses: Mapping[InstantTime, WriterStatus] = field(default_factory=dict)
    """Of pending instants."""
    named_in_logs: frozenset[InstantTime] = frozenset()
    """Version 6: the base instants in the names of log files."""
    unfinished_blocks: Mapping[InstantTime, str] = field(default_factory=dict)
    """Version 6: pending writes that appended to log files; one of those each."""
    has_logs: bool = False
    """Whether rows of the table come out of log files."""
    sample_key: str | None = None
    """The key of some row."""
    foreign_file: str | None = None
    """A file in the place of the new timeline that hoodoo did not put there."""


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A property before and after; None: it is not there."""

    key: str
    old: str | None
    new: str | None


def plan_upgrade(facts: UpgradeFacts) -> PropertyChanges:
    """The properties that change; raises `UnsupportedFeature`, `WriterAlive`, `TimelineError`."""
    _refuse_features(facts)
    for instant in facts.timeline.pending:
        _refuse_alive(instant, facts.pulses[instant.requested_time])
    for instant in facts.timeline.pending:
        _refuse_pending(facts, instant)
    if facts.foreign_file is not None:
        raise TimelineError(
            f"{facts.foreign_file} is in the place of the new timeline, and hoodoo did not put it "
            "there: an upgrade by Apache Hudi was cut off. Let Apache Hudi finish it: it has moved "
            "a part of the timeline"
        )
    return upgrade_properties(facts.properties)


def describe_changes(
    properties: TableProperties, changes: PropertyChanges
) -> tuple[PropertyChange, ...]:
    """Changes for people."""
    raw = properties.raw
    return tuple(PropertyChange(key, raw.get(key), new) for key, new in sorted(changes.items()))


def _refuse_features(facts: UpgradeFacts) -> None:
    properties = facts.properties
    raw, rule = properties.raw, properties.keys
    if raw.get("hoodie.bootstrap.base.path"):
        raise UnsupportedFeature(
            "a bootstrapped table (hoodie.bootstrap.base.path) is not upgraded by hoodoo, which "
            "does not read it: upgrade it with Apache Hudi"
        )
    names_types = all(":" in field for field in raw.get(keys.PARTITION_FIELDS.name, "").split(","))
    is_old = properties.version.timeline_layout == 1
    if (
        is_old
        and rule.generator is KeyGenerator.CUSTOM
        and rule.partition_fields
        and not names_types
    ):
        raise UnsupportedFeature(
            "a custom key generator needs the type of each partition field "
            f"({keys.PARTITION_FIELDS.name}=field:TYPE), which version 6 does not keep: upgrade "
            "with Apache Hudi, whose writer knows them"
        )
    if _has_bare_complex_keys(facts):
        raise UnsupportedFeature(
            f"record keys are {facts.sample_key!r}, without the field's name: the complex key "
            "generator of versions 9 writes 'field:value' for one field, so that updates would "
            "not find their rows. Write the rows into a new table"
        )
    payload = PAYLOADS.get(raw.get(keys.PAYLOAD_CLASS.name, ""))
    if payload is not None and not payload.merges_alike and facts.has_logs:
        raise UnsupportedFeature(
            f"log files of the table are merged by {raw[keys.PAYLOAD_CLASS.name]}, for which "
            "version 9 has rules that may make other rows of them: compact the table first, "
            f"{_OLD_HUDI}"
        )


def _has_bare_complex_keys(facts: UpgradeFacts) -> bool:
    rule = facts.properties.keys
    if rule.generator is not KeyGenerator.COMPLEX or len(rule.record_fields) != 1:
        return False
    key = facts.sample_key
    return key is not None and not key.startswith(f"{rule.record_fields[0]}:")


def _refuse_alive(instant: Instant, pulse: WriterStatus) -> None:
    """A plan that waits for an executor has no heartbeat, and nobody is at work on it."""
    is_plan = instant.action.completed_as is not instant.action or instant.action in (
        Action.CLEAN,
        Action.REPLACE_COMMIT,
    )
    waits = is_plan and instant.state is State.REQUESTED and not pulse.has_heartbeat
    if not pulse.is_dead and not waits:
        raise WriterAlive(f"{instant} is being written by {pulse}: stop all writers first")


def _refuse_pending(facts: UpgradeFacts, instant: Instant) -> None:
    """What readers and writers of version 9 could not finish, or would read in another way."""
    if instant.action is Action.INDEXING:
        raise TimelineError(
            f"{instant} builds an index of the metadata table, which an upgrade drops: finish it "
            f"or roll it back first, {_OLD_HUDI}"
        )
    if facts.properties.version.timeline_layout != 1:
        return
    time = instant.requested_time
    if instant.action in _UNDOING:
        raise TimelineError(
            f"{instant} was begun by the rules of version 6: finish it first, {_OLD_HUDI}"
        )
    if instant.action in _COMPACTIONS and time in facts.named_in_logs:
        raise TimelineError(
            f"{instant} waits, and log files were written on top of it that version 9 would not "
            f"show before it is done: run it first, {_OLD_HUDI}"
        )
    if time in facts.unfinished_blocks:
        raise TimelineError(
            f"{instant} is unfinished, and has rows in {facts.unfinished_blocks[time]}, beside "
            f"rows of others: roll it back first, {_OLD_HUDI}"
        )


def needs_log_names(properties: TableProperties, timeline: Timeline) -> bool:
    """Whether the names of log files decide."""
    is_old_mor = (
        properties.version.timeline_layout == 1 and properties.type is TableType.MERGE_ON_READ
    )
    return is_old_mor and any(each.action.writes_data for each in timeline.pending)


# -- facts from the table -----------------------------------------------------------------------


NEW_TIMELINE = TimelinePaths.of(2)


def load_facts(ref: TableRef) -> UpgradeFacts:
    """Order: timeline; heartbeats; then data files, as far as they decide."""
    properties, timeline = ref.properties, ref.load_timeline()
    times_in_logs: frozenset[InstantTime] = frozenset()
    blocks: dict[InstantTime, str] = {}
    if needs_log_names(properties, timeline):
        lister = DirectoryLister(ref.env, properties.keys)
        logs = [file for file in lister.files() if isinstance(file, LogFile)]
        times_in_logs = frozenset(log.name.instant_time for log in logs)
        writes = {each.requested_time for each in timeline.pending if each.action.writes_data}
        blocks = _find_blocks(ref, logs, writes)
    return UpgradeFacts(
        properties,
        timeline,
        pulses=load_writer_statuses(ref, timeline.pending),
        named_in_logs=times_in_logs,
        unfinished_blocks=blocks,
        has_logs=_depends_on_logs(ref),
        sample_key=_read_sample_key(ref),
        foreign_file=_find_foreign_file(ref),
    )


def load_old_files(ref: TableRef) -> list[OldFile]:
    """The active timeline of layout 1, each file by its instant, oldest first."""
    old_files = [
        OldFile(state, entry.path, entry.modified_ms, entry.size_bytes)
        for entry in ref.env.storage.list(paths.META)
        for state in parse_states((entry,), ref.properties.timeline_paths)
    ]
    return sorted(
        old_files, key=lambda file: (file.instant.requested_time, file.instant.state.rank)
    )


def _find_blocks(
    ref: TableRef, logs: Iterable[LogFile], times: set[InstantTime]
) -> dict[InstantTime, str]:
    """In which log file each of these instants has blocks, if in any."""
    log_by_time: dict[InstantTime, str] = {}
    for log in logs:
        data = ref.env.storage.read(log.path)
        with add_error_source(log.path):
            for block in read_blocks(data).blocks:
                if block.instant_time in times:
                    log_by_time.setdefault(block.instant_time, log.path)
    return log_by_time


def _depends_on_logs(ref: TableRef) -> bool:
    """Asked only of tables whose rows may depend on it."""
    payload = PAYLOADS.get(ref.properties.raw.get(keys.PAYLOAD_CLASS.name, ""))
    if payload is None or payload.merges_alike:
        return False
    return any(each.logs for each in take_snapshot(ref).slices())


def _read_sample_key(ref: TableRef) -> str | None:
    """The key of some row, where the version does not tell what keys look like."""
    rule = ref.properties.keys
    if rule.generator is not KeyGenerator.COMPLEX or len(rule.record_fields) != 1:
        return None
    for each in take_snapshot(ref).slices():
        if each.base is None:
            continue
        with add_error_source(each.base.path), ref.env.storage.open_read(each.base.path) as source:
            for batch in open_parquet(source).iter_batches(1, columns=[RECORD_KEY]):
                if batch.num_rows:
                    key = batch.column(0)[0].as_py()
                    return None if key is None else str(key)
    return None


def _find_foreign_file(ref: TableRef) -> str | None:
    if ref.properties.version.timeline_layout != 1 or ref.env.storage.exists(paths.UPGRADE):
        return None
    entries = ref.env.storage.list(NEW_TIMELINE.active, recursive=True)
    return next((entry.path for entry in entries), None)
