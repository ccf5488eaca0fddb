"""Creating a table: `hoodie.properties` is what makes one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hoodoo.config import index
from hoodoo.config import table as keys
from hoodoo.config.check import check_options
from hoodoo.config.key import Config, Key, split_options
from hoodoo.errors import ConfigError, FormatError, InputError, ObjectExists, TableExists
from hoodoo.format import properties as codec
from hoodoo.format.arrow_types import normalise
from hoodoo.format.schema import arrow_from_avro, avro_from_arrow, without_meta_fields
from hoodoo.model import paths
from hoodoo.model.instant import TimelineZone
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.merge import MergeMode, merging_of_payload
from hoodoo.model.table import TableType, TableVersion
from hoodoo.rows.keys import field_type, refuse_unfit_times
from hoodoo.rows.merge import refuse_unfit_flag
from hoodoo.runtime.env import Env
from hoodoo.storage import probe_conditions
from hoodoo.table.options import refuse_options
from hoodoo.table.properties import decode_properties
from hoodoo.table.ref import TableRef, open_ref, upload_limit_s

VERSION = TableVersion.NINE

# Keys that say what a table is; all other options only steer the writes of this process.
_PERSISTED_KEYS: tuple[Key[Any], ...] = (
    keys.DATABASE,
    keys.HIVE_STYLE,
    keys.URL_ENCODE,
    keys.TIMESTAMP_TYPE,
    keys.OUTPUT_FORMAT,
    keys.INPUT_FORMAT,
    keys.ZONE,
    keys.INPUT_ZONE,
    keys.OUTPUT_ZONE,
    keys.SCALAR_UNIT,
    keys.DELETE_FIELD,
    keys.DELETE_MARKER,
    index.HASH_FIELDS,
    index.BUCKET_ENGINE,
)
_FIXED_KEYS: tuple[Key[Any], ...] = (
    keys.VERSION,
    keys.LAYOUT,
    keys.BASE_FILE_FORMAT,
    keys.DROP_PARTITION_COLUMNS,
    keys.POPULATE_META_FIELDS,
    keys.METADATA_PARTITIONS,
    keys.METADATA_PARTITIONS_INFLIGHT,
    keys.CDC_ENABLED,
    keys.PARTIAL_UPDATE_MODE,
    keys.FORMAT_DELIMITER,
    keys.DATE_PARSER,
    keys.SLASH_DATES,
)


def create_table(
    uri: str,
    *,
    schema: pa.Schema | str,
    record_key: str | Sequence[str],
    name: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    options: Mapping[str, object] | None = None,
    env: Env | None = None,
) -> TableRef:
    """Create a table of version 9; `TableExists` if one is there.

    Order: a placeholder in the timeline, then hoodie.properties, put-if-absent.
    Crash: without the second there is no table.
    """
    config, storage_options = split_options(options)
    check_options(config)
    fields = _check_schema(schema)
    raw = _properties(
        config,
        fields,
        name=_check_name(name or uri.rstrip("/").rpartition("/")[2]),
        record_key=_parse_names(record_key, "record_key"),
        partition_by=_parse_names(partition_by, "partition_by"),
        ordering=_parse_names(ordering, "ordering"),
        table_type=_parse_table_type(table_type),
    )
    limit_s = upload_limit_s(config.over(raw))
    env = env or Env.of(uri, storage_options, upload_limit_s=limit_s)
    data = codec.serialise(raw, comment=codec.saved_at(env.clock.now_ms()))
    properties = decode_properties(data, source=paths.PROPERTIES)
    refuse_unfit_times(fields, properties.keys)
    refuse_unfit_flag(fields, properties.merge)
    refuse_options(config, properties, env.storage.uri, operation=None)
    probe_conditions(env.storage)
    if env.storage.exists(paths.PROPERTIES_BACKUP) or env.storage.exists(paths.PROPERTIES):
        raise TableExists(env.storage.uri)
    # Apache Hudi fails on a table whose timeline directory is not there; it ignores the file.
    env.storage.put(f"{properties.timeline_paths.active}/{paths.PLACEHOLDER}", b"")
    try:
        env.storage.create(paths.PROPERTIES, data)
    except ObjectExists:
        raise TableExists(env.storage.uri) from None
    return TableRef(env, properties, config.over(properties.raw), config)


def open_fitting(
    uri: str,
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    options: Mapping[str, object] | None = None,
) -> TableRef:
    """Open the table that is there; `TableExists` if it is another one than this."""
    ref = open_ref(uri, options)
    properties = ref.properties
    keys_rule = properties.keys
    facts = [
        ("record key", keys_rule.record_fields, _parse_names(record_key, "record_key")),
        (
            "partition fields",
            keys_rule.partition_fields,
            _parse_names(partition_by, "partition_by"),
        ),
        ("ordering", properties.merge.ordering_fields, _parse_names(ordering, "ordering")),
        ("type", (properties.type.value,), (_parse_table_type(table_type).value,)),
    ]
    differences = [
        f"its {what} is {', '.join(present) or 'none'}, not {', '.join(request) or 'none'}"
        for what, present, request in facts
        if tuple(present) != tuple(request)
    ]
    if differences:
        raise TableExists(ref.uri, "; ".join(differences))
    return ref


def _properties(
    config: Config,
    schema: pa.Schema,
    *,
    name: str,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: tuple[str, ...],
    table_type: TableType,
) -> dict[str, str]:
    if not record_key:
        raise InputError("a table needs a record key")
    for field in (*record_key, *partition_by, *ordering):
        if field_type(schema, field) is None:
            raise InputError(f"no column {field!r} in the schema; there are {schema.names}")
    _refuse_fixed(config)
    raw = {
        keys.NAME.name: name,
        keys.TYPE.name: table_type.value,
        keys.VERSION.name: str(VERSION.value),
        "hoodie.table.initial.version": str(VERSION.value),
        keys.LAYOUT.name: str(VERSION.timeline_layout),
        keys.TIMELINE_PATH.name: keys.TIMELINE_PATH.default,
        keys.HISTORY_PATH.name: keys.HISTORY_PATH.default,
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.format": "native",
        keys.TIMEZONE.name: _timeline_zone(config).value,
        keys.BASE_FILE_FORMAT.name: "PARQUET",
        keys.DROP_PARTITION_COLUMNS.name: "false",
        keys.RECORD_KEY_FIELDS.name: ",".join(record_key),
        keys.DATABASE.name: "default",
        keys.HIVE_STYLE.name: "true",
        keys.URL_ENCODE.name: "false",
        **_merging(config, ordering),
        keys.CREATE_SCHEMA.name: avro_from_arrow(schema, name),
    }
    if partition_by:
        raw[keys.PARTITION_FIELDS.name] = ",".join(partition_by)
    if ordering:
        raw[keys.ORDERING_FIELDS.name] = ",".join(ordering)
    for key in _PERSISTED_KEYS:
        for spelling in (key.name, *key.aliases):
            if spelling in config.values:
                raw[key.name] = config.values[spelling]
    if config.get(index.INDEX_TYPE) is index.IndexType.BUCKET:
        raw[index.INDEX_TYPE.name] = index.IndexType.BUCKET.value
        raw[index.NUM_BUCKETS.name] = str(index.bucket_rule(config, record_key).count)
    raw[keys.KEY_GENERATOR.name] = _key_generator(config, record_key, partition_by).value
    if raw[keys.KEY_GENERATOR.name] == KeyGenerator.TIMESTAMP.value and not any(
        key.name in raw for key in (keys.ZONE, keys.INPUT_ZONE, keys.OUTPUT_ZONE)
    ):
        raw[keys.ZONE.name] = "UTC"  # untold, Apache Hudi takes the zone of each writer's process
    raw[codec.CHECKSUM_KEY] = str(codec.checksum(raw))
    return raw


def _refuse_fixed(config: Config) -> None:
    for key in _FIXED_KEYS:
        only_value = VERSION.value if key is keys.VERSION else key.default
        only_value = VERSION.timeline_layout if key is keys.LAYOUT else only_value
        if config.sets(key) and config.get(key) != only_value:
            raise ConfigError(
                key=key.name, value=config.values.get(key.name), reason="cannot be chosen"
            )


def _timeline_zone(config: Config) -> TimelineZone:
    """UTC unless told: the key's own default is what its absence means, not what is good."""
    return config.get(keys.TIMEZONE) if config.sets(keys.TIMEZONE) else TimelineZone.UTC


def _merging(config: Config, ordering: tuple[str, ...]) -> dict[str, str]:
    """Merge mode, and what else a payload class stands for, as Apache Hudi stores them."""
    natural = MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
    flag = None
    raw = {}
    payload = config.get(keys.PAYLOAD_CLASS)
    if payload:
        raw[keys.LEGACY_PAYLOAD_CLASS.name] = payload
        merging = merging_of_payload(payload)
        if merging is None:
            name = config.spelling(keys.PAYLOAD_CLASS) or keys.PAYLOAD_CLASS.name
            raise ConfigError(key=name, value=payload, reason="is not supported")
        natural, flag = merging
    if flag is not None:
        raw |= {keys.DELETE_FIELD.name: flag.field, keys.DELETE_MARKER.name: flag.text}
    if keys.delete_flag(config) not in (None, flag) and flag is not None:
        raise ConfigError(
            key=keys.DELETE_FIELD.name,
            value=config.get(keys.DELETE_FIELD),
            reason=f"{payload} stands for {flag.field}={flag.text}",
        )
    mode = config.get(keys.MERGE_MODE) or natural
    if mode is MergeMode.CUSTOM or (payload and mode is not natural):
        reason = f"does not go together with {payload}" if payload else "is not supported"
        raise ConfigError(key=keys.MERGE_MODE.name, value=mode.value, reason=reason)
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        raise ConfigError(
            key=keys.MERGE_MODE.name, value=mode.value, reason="needs an ordering column"
        )
    return {keys.MERGE_MODE.name: mode.value, **raw}


def _key_generator(
    config: Config, record_key: tuple[str, ...], partition_by: tuple[str, ...]
) -> KeyGenerator:
    generator = config.get(keys.KEY_GENERATOR_CLASS) or config.get(keys.KEY_GENERATOR)
    natural = keys.inferred_generator(record_key, partition_by)
    if generator is None:
        return natural
    fits = {
        KeyGenerator.NON_PARTITION: not partition_by,
        KeyGenerator.SIMPLE: len(record_key) == 1 and len(partition_by) == 1,
        KeyGenerator.COMPLEX: bool(partition_by),
        KeyGenerator.TIMESTAMP: len(record_key) == 1
        and len(partition_by) == 1
        and config.sets(keys.TIMESTAMP_TYPE)
        and config.sets(keys.OUTPUT_FORMAT),
    }
    if not fits.get(generator, False):
        raise ConfigError(
            key=keys.KEY_GENERATOR.name,
            value=generator.value,
            reason=f"does not fit keys {list(record_key)} and partition fields "
            f"{list(partition_by)} (a TIMESTAMP key generator needs {keys.TIMESTAMP_TYPE.name} "
            f"and {keys.OUTPUT_FORMAT.name})",
        )
    return generator


def _check_schema(schema: pa.Schema | str) -> pa.Schema:
    if isinstance(schema, str):
        try:
            schema = arrow_from_avro(schema)
        except FormatError as error:
            raise InputError(f"the schema is not an Avro schema: {error}") from None
    if not isinstance(schema, pa.Schema):
        raise InputError(
            "a schema is a pyarrow.Schema, a frame, Avro JSON or a Spark StructType, "
            f"not {type(schema).__name__}"
        )
    schema = normalise(without_meta_fields(schema))
    if not schema.names:
        raise InputError("a table needs at least one column")
    lower = [name.lower() for name in schema.names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    if twice:
        raise InputError(f"columns {', '.join(twice)} are there twice")
    return schema


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[^\s/\\=:,]+", name):
        raise InputError(f"{name!r} cannot be a table's name; give one by name=")
    return name


def _parse_names(names_or_name: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    names = (names_or_name,) if isinstance(names_or_name, str) else tuple(names_or_name or ())
    for name in names:
        if not isinstance(name, str) or not name or "," in name:
            raise InputError(f"{name!r} cannot be a {what} column")
    if len(set(names)) < len(names):
        raise InputError(f"{what} names a column twice: {list(names)}")
    return names


def _parse_table_type(text: str) -> TableType:
    type_by_name = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
    type_by_name |= {kind.value.lower(): kind for kind in TableType}
    kind = type_by_name.get(str(text).lower())
    if kind is None:
        raise InputError(f"table_type is 'cow' or 'mor', not {text!r}")
    return kind
