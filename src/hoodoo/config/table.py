"""Keys that live in `hoodie.properties`, and how they make `TableProperties`."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.config.key import Config, Key, boolean, integer, names, one_of, optional_text, text
from hoodoo.errors import ConfigError, UnsupportedVersion
from hoodoo.model.dates import TimestampRule, TimestampType, scalar_unit
from hoodoo.model.instant import TimelineZone
from hoodoo.model.keys import KeyGenerator, KeyRule
from hoodoo.model.merge import DeleteFlag, MergeMode, MergeRule, infer_mode
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.table import TableProperties, TableType, TableVersion

NO_NAMES: tuple[str, ...] = ()


def _key_generator(value: str) -> KeyGenerator:
    """A type (`SIMPLE`, `SIMPLE_AVRO`) or a Java class name (`...SimpleAvroKeyGenerator`)."""
    word = value.rpartition(".")[2].upper().replace("_", "")
    word = word.removesuffix("KEYGENERATOR").removesuffix("AVRO")
    return {
        "SIMPLE": KeyGenerator.SIMPLE,
        "COMPLEX": KeyGenerator.COMPLEX,
        "TIMESTAMP": KeyGenerator.TIMESTAMP,
        "TIMESTAMPBASED": KeyGenerator.TIMESTAMP,
        "NONPARTITION": KeyGenerator.NON_PARTITION,
        "NONPARTITIONED": KeyGenerator.NON_PARTITION,
        "CUSTOM": KeyGenerator.CUSTOM,
    }.get(word, KeyGenerator.OTHER)


def _path(value: str) -> str:
    """A directory name below `.hoodie`."""
    if not value or value.startswith("/") or any(p in ("", "..") for p in value.split("/")):
        raise ValueError("expected a relative directory name")
    return value


def _single_format(value: str) -> str:
    if value.upper() not in ("PARQUET", "HFILE", "ORC", "LANCE"):
        raise ValueError("expected PARQUET")
    return value.upper()


NAME = Key("hoodie.table.name", text, "", "Name of the table.")
DATABASE = Key("hoodie.database.name", optional_text, None, "Database the table belongs to.")
TYPE = Key(
    "hoodie.table.type",
    one_of(TableType),
    TableType.COPY_ON_WRITE,
    "COPY_ON_WRITE or MERGE_ON_READ.",
)
VERSION = Key("hoodie.table.version", integer(0, 1000), 9, "Version of the table's format.")
INITIAL_VERSION = "hoodie.table.initial.version"
LAYOUT = Key("hoodie.timeline.layout.version", integer(0, 1000), 1, "Layout of the timeline.")
TIMELINE_PATH = Key("hoodie.timeline.path", _path, "timeline", "Timeline's place in .hoodie.")
HISTORY_PATH = Key(
    "hoodie.timeline.history.path", _path, "history", "Archived timeline, below the timeline."
)
RECORD_KEY_FIELDS = Key(
    "hoodie.table.recordkey.fields", names, NO_NAMES, "Columns that make up the record key."
)
PARTITION_FIELDS = Key(
    "hoodie.table.partition.fields", names, NO_NAMES, "Columns that make up the partition path."
)
ORDERING_FIELDS = Key(
    "hoodie.table.ordering.fields",
    names,
    NO_NAMES,
    "Columns whose larger value wins when two versions of a record meet.",
    aliases=("hoodie.table.precombine.field",),
)
KEY_GENERATOR: Key[KeyGenerator | None] = Key(
    "hoodie.table.keygenerator.type",
    _key_generator,
    None,
    "SIMPLE, COMPLEX, TIMESTAMP or NON_PARTITION; by default inferred from the fields.",
    aliases=("hoodie.datasource.write.keygenerator.type",),
)
KEY_GENERATOR_CLASS: Key[KeyGenerator | None] = Key(
    "hoodie.table.keygenerator.class",
    _key_generator,
    None,
    "Java class name of the key generator; wins over the type.",
    aliases=("hoodie.datasource.write.keygenerator.class",),
)
MERGE_MODE: Key[MergeMode | None] = Key(
    "hoodie.record.merge.mode",
    one_of(MergeMode),
    None,
    "COMMIT_TIME_ORDERING or EVENT_TIME_ORDERING; by default inferred from the ordering fields.",
)
MERGE_STRATEGY = Key(
    "hoodie.record.merge.strategy.id",
    optional_text,
    None,
    "Id of the merge strategy.",
    aliases=("hoodie.compaction.record.merger.strategy",),
)
PAYLOAD_CLASS = Key(
    "hoodie.compaction.payload.class",
    optional_text,
    None,
    "Java class that merges records; decides the merge mode of old tables, and of new ones at "
    "creation: OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload, EventTimeAvroPayload "
    "or AWSDmsAvroPayload (rows whose Op is D are deletes).",
    aliases=("hoodie.datasource.write.payload.class",),
)
LEGACY_PAYLOAD_CLASS = Key(
    "hoodie.table.legacy.payload.class",
    optional_text,
    None,
    "The payload class given at creation, kept for Apache Hudi's writers.",
)
_MERGE_PROPERTY = "hoodie.record.merge.property."
DELETE_FIELD = Key(
    f"{_MERGE_PROPERTY}hoodie.payload.delete.field",
    optional_text,
    None,
    "Column by which rows say that they are deletes: those that have the marker there. Chosen at "
    "creation.",
    aliases=("hoodie.payload.delete.field",),
)
DELETE_MARKER = Key(
    f"{_MERGE_PROPERTY}hoodie.payload.delete.marker",
    optional_text,
    None,
    "The text that this column has in deletes. Chosen at creation.",
    aliases=("hoodie.payload.delete.marker",),
)
PARTIAL_UPDATE_MODE = Key(
    "hoodie.table.partial.update.mode",
    str.upper,
    "NONE",
    "Others: only base files are read.",
)
HIVE_STYLE = Key(
    "hoodie.datasource.write.hive_style_partitioning",
    boolean,
    False,
    "Partition directories are named field=value.",
)
URL_ENCODE = Key(
    "hoodie.datasource.write.partitionpath.urlencode",
    boolean,
    False,
    "Escape special characters in partition values.",
)
SLASH_DATES = Key(
    "hoodie.datasource.write.slash.separated.date.partitioning",
    boolean,
    False,
    "Partition directories of a date are yyyy/MM/dd; such tables can only be read.",
)
DROP_PARTITION_COLUMNS = Key(
    "hoodie.datasource.write.drop.partition.columns",
    boolean,
    False,
    "Data files lack the partition columns; such tables can only be read.",
)
CREATE_SCHEMA = Key(
    "hoodie.table.create.schema", optional_text, None, "Avro schema given when it was created."
)
BASE_FILE_FORMAT = Key(
    "hoodie.table.base.file.format", _single_format, "PARQUET", "Format of base files."
)
POPULATE_META_FIELDS = Key(
    "hoodie.populate.meta.fields", boolean, True, "Rows carry the five meta columns."
)
METADATA_PARTITIONS = Key(
    "hoodie.table.metadata.partitions", names, NO_NAMES, "Partitions of the metadata table in use."
)
METADATA_PARTITIONS_INFLIGHT = Key(
    "hoodie.table.metadata.partitions.inflight", names, NO_NAMES, "Those that are being built."
)
CDC_ENABLED = Key("hoodie.table.cdc.enabled", boolean, False, "Change data capture is on.")
TIMEZONE = Key(
    "hoodie.table.timeline.timezone",
    one_of(TimelineZone),
    TimelineZone.LOCAL,
    "Time zone of instant times: UTC (new tables, unless told), or LOCAL, that of each writer's "
    "process. Chosen at creation.",
)
CHECKSUM: Key[int | None] = Key(
    "hoodie.table.checksum", integer(0, 2**32 - 1), None, "CRC-32 of database and table name."
)

_TIMEBASED_PREFIX = "hoodie.keygen.timebased."
_OLD_TIMEBASED = "hoodie.deltastreamer.keygen.timebased."


TIMESTAMP_TYPE: Key[TimestampType | None] = Key(
    f"{_TIMEBASED_PREFIX}timestamp.type",
    one_of(TimestampType),
    None,
    "What the partition column's values are.",
    aliases=(f"{_OLD_TIMEBASED}timestamp.type",),
)
OUTPUT_FORMAT = Key(
    f"{_TIMEBASED_PREFIX}output.dateformat",
    text,
    "",
    "Java date pattern of the partition path.",
    aliases=(f"{_OLD_TIMEBASED}output.dateformat",),
)
INPUT_FORMAT = Key(
    f"{_TIMEBASED_PREFIX}input.dateformat",
    names,
    NO_NAMES,
    "Java date patterns of text values, separated by commas.",
    aliases=(f"{_OLD_TIMEBASED}input.dateformat",),
)
ZONE: Key[str | None] = Key(
    f"{_TIMEBASED_PREFIX}timezone",
    optional_text,
    None,
    "Time zone of partition paths and of text values; wins over the two keys for either.",
    aliases=(f"{_OLD_TIMEBASED}timezone",),
)
INPUT_ZONE: Key[str | None] = Key(
    f"{_TIMEBASED_PREFIX}input.timezone",
    optional_text,
    None,
    "Time zone of text values that name none.",
    aliases=(f"{_OLD_TIMEBASED}input.timezone",),
)
OUTPUT_ZONE: Key[str | None] = Key(
    f"{_TIMEBASED_PREFIX}output.timezone",
    optional_text,
    None,
    "Time zone of partition paths.",
    aliases=(f"{_OLD_TIMEBASED}output.timezone",),
)
SCALAR_UNIT = Key(
    f"{_TIMEBASED_PREFIX}timestamp.scalar.time.unit",
    scalar_unit,
    "SECONDS",
    "Unit of SCALAR values.",
    aliases=(f"{_OLD_TIMEBASED}timestamp.scalar.time.unit",),
)


FORMAT_DELIMITER = Key(
    f"{_TIMEBASED_PREFIX}input.dateformat.list.delimiter.regex",
    text,
    ",",
    "What separates the input patterns; another than a comma: the table can only be read.",
    aliases=(f"{_OLD_TIMEBASED}input.dateformat.list.delimiter.regex",),
)
DATE_PARSER = Key(
    "hoodie.keygen.datetime.parser.class",
    text,
    "org.apache.hudi.keygen.parser.HoodieDateTimeParser",
    "Java class that reads text values; another one: the table can only be read.",
    aliases=("hoodie.deltastreamer.keygen.datetime.parser.class",),
)


def table_properties(raw: Mapping[str, str]) -> TableProperties:
    """Typed properties of the text ones; fails on versions and values that we cannot serve."""
    config = Config(raw)
    version = _version(config)
    for key in (NAME, TYPE):
        if not config.values.get(key.name):
            raise ConfigError(key=key.name, value=None, reason="is missing")
    name = config.get(NAME)
    ordering, is_old = config.get(ORDERING_FIELDS), version.timeline_layout == 1
    mode = infer_mode(
        mode=config.get(MERGE_MODE),
        strategy_id=config.get(MERGE_STRATEGY),
        payload_class=config.get(PAYLOAD_CLASS),
        has_ordering=bool(ordering),
        payload_decides=version.payload_decides_merging,
    )
    return TableProperties(
        name=name,
        type=config.get(TYPE),
        version=version,
        timeline_paths=TimelinePaths.of(
            version.timeline_layout,
            timeline=config.get(TIMELINE_PATH),
            history=archive_folder(config) if is_old else config.get(HISTORY_PATH),
            zone=config.get(TIMEZONE),
        ),
        keys=key_rule(config),
        merge=MergeRule(
            mode,
            ordering,
            updates_partially=config.get(PARTIAL_UPDATE_MODE) != "NONE",
            delete_flag=delete_flag(config),
        ),
        create_schema=config.get(CREATE_SCHEMA),
        database=config.get(DATABASE),
        populates_meta_fields=config.get(POPULATE_META_FIELDS),
        metadata_partitions=config.get(METADATA_PARTITIONS),
        metadata_partitions_inflight=config.get(METADATA_PARTITIONS_INFLIGHT),
        drops_partition_columns=config.get(DROP_PARTITION_COLUMNS),
        base_file_format=config.get(BASE_FILE_FORMAT),
        initial_version=_initial_version(config),
        raw=dict(raw),
    )


def delete_flag(config: Config) -> DeleteFlag | None:
    """The column by which rows say that they are deletes; both of its keys, or none, are set."""
    field, marker = config.get(DELETE_FIELD), config.get(DELETE_MARKER)
    if field and marker:
        return DeleteFlag(field, marker)
    for key, value, other in (
        (DELETE_FIELD, field, DELETE_MARKER),
        (DELETE_MARKER, marker, DELETE_FIELD),
    ):
        if value:
            raise ConfigError(key=key.name, value=value, reason=f"needs {other.name} beside it")
    return None


def _version(config: Config) -> TableVersion:
    if not config.sets(VERSION):
        raise ConfigError(key=VERSION.name, value=None, reason="the table's version is missing")
    number = config.get(VERSION)
    try:
        version = TableVersion(number)
    except ValueError:
        raise UnsupportedVersion(what="table version", version=number) from None
    if not config.sets(LAYOUT) or config.get(LAYOUT) != version.timeline_layout:
        raise ConfigError(
            key=LAYOUT.name,
            value=config.values.get(LAYOUT.name),
            reason=f"table version {number} needs timeline layout {version.timeline_layout}",
        )
    return version


def archive_folder(config: Config) -> str:
    """Where tables of version 6 keep their archived timeline."""
    return config.get(Key("hoodie.archivelog.folder", _path, "archived", ""))


def _initial_version(config: Config) -> TableVersion | None:
    """Of versions that nobody upgrades from any more, the oldest that we know."""
    number = config.values.get(INITIAL_VERSION, "").strip()
    if not number.isdigit():
        return None
    versions = [version for version in TableVersion if version.value <= int(number)]
    return versions[-1] if versions else TableVersion.SIX


def key_rule(config: Config) -> KeyRule:
    """How keys and partition paths are made."""
    record_fields = config.get(RECORD_KEY_FIELDS)
    # A custom key generator writes `field:type`; the name is what matters here.
    partition_fields = tuple(f.partition(":")[0] for f in config.get(PARTITION_FIELDS))
    generator = config.get(KEY_GENERATOR_CLASS) or config.get(KEY_GENERATOR)
    if generator is None:
        generator = inferred_generator(record_fields, partition_fields)
    return KeyRule(
        generator,
        record_fields,
        partition_fields,
        hive_style=config.get(HIVE_STYLE),
        url_encode=config.get(URL_ENCODE),
        timestamp=_timestamp_rule(config) if generator is KeyGenerator.TIMESTAMP else None,
    )


def inferred_generator(record: tuple[str, ...], partition: tuple[str, ...]) -> KeyGenerator:
    """The key generator that fits these fields, as Apache Hudi infers it."""
    if not partition:
        return KeyGenerator.NON_PARTITION
    if len(record) == 1 and len(partition) == 1:
        return KeyGenerator.SIMPLE
    return KeyGenerator.COMPLEX


def _timestamp_rule(config: Config) -> TimestampRule:
    kind = config.get(TIMESTAMP_TYPE)
    if kind is None:
        # Old tables kept this with the writer only; good enough to read, refused for writing.
        kind = TimestampType.MIXED
    zone = config.get(ZONE)
    return TimestampRule(
        kind,
        config.get(OUTPUT_FORMAT),
        config.get(INPUT_FORMAT),
        input_zone=zone or config.get(INPUT_ZONE),
        output_zone=zone or config.get(OUTPUT_ZONE),
        scalar_unit=config.get(SCALAR_UNIT),
    )
