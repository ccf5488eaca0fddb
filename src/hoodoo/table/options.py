"""Options that say what a write means, held against the write and the table it is for."""

from __future__ import annotations

from enum import Enum
from typing import Any

from hoodoo.config import keys_of
from hoodoo.config import table as keys
from hoodoo.config.check import refuse_unsupported, rule_of
from hoodoo.config.hudi_keys import BASE_PATH, OPERATION
from hoodoo.config.key import Config, Key
from hoodoo.errors import ConfigError
from hoodoo.model.commit import OperationType
from hoodoo.model.merge import MergeMode, infer_mode, merging_of_payload
from hoodoo.model.table import TableProperties
from hoodoo.storage.uri import parse_uri

_CALLS = {
    OperationType.INSERT: "table.insert(rows)",
    OperationType.BULK_INSERT: "table.bulk_insert(rows)",
    OperationType.UPSERT: "table.upsert(rows)",
    OperationType.DELETE: "table.delete(rows)",
    OperationType.INSERT_OVERWRITE: "table.insert_overwrite(rows)",
    OperationType.INSERT_OVERWRITE_TABLE: "table.insert_overwrite_table(rows)",
    OperationType.DELETE_PARTITION: "table.delete_partitions([...])",
}
_ADDS_ROWS = {OperationType.INSERT, OperationType.BULK_INSERT}
# What a database calls a table changes nothing in it.
_TABLE_KEYS = {
    name: key
    for key in keys_of(keys)
    if key is not keys.DATABASE
    for name in (key.name, *key.aliases)
}
_NAMES_COLUMNS = (keys.RECORD_KEY_FIELDS, keys.PARTITION_FIELDS, keys.ORDERING_FIELDS)
_SAYS_MODE = (keys.MERGE_MODE, keys.MERGE_STRATEGY, keys.PAYLOAD_CLASS)


def refuse_options(
    options: Config, properties: TableProperties, uri: str, operation: OperationType | None
) -> None:
    """Fail, before anything is written, if the caller's options ask for another write than this.

    `operation`: None where a table is created. Raises `ConfigError`.
    """
    refuse_unsupported(options)
    if operation is not None:
        _refuse_operation(options, uri, operation)
    path = options.values.get(BASE_PATH)
    if path is not None and str(parse_uri(path)) != uri:
        raise ConfigError(key=BASE_PATH, value=path, reason=f"the table is at {uri}")
    _refuse_other_table(options, properties)
    _refuse_other_delete_flag(options, properties)


def _refuse_operation(options: Config, uri: str, operation: OperationType) -> None:
    text = options.values.get(OPERATION)
    if text is None:
        return
    option = text.strip().upper()
    if option == operation or {option, operation} <= _ADDS_ROWS:
        return
    call = _CALLS.get(OperationType(option)) if option in OperationType.__members__ else None
    advice = f"use {call}" if call else f"use one of {', '.join(_CALLS.values())}"
    raise ConfigError(
        key=OPERATION,
        value=text,
        reason=f"this write is of kind {operation.lower()}; "
        f"with table = hoodoo.open_table({uri!r}), {advice}",
    )


def _refuse_other_table(options: Config, properties: TableProperties) -> None:
    for name, text in options.values.items():
        key = _key_of(name)
        if key is None or (not text.strip() and key not in _NAMES_COLUMNS):
            continue
        if key is keys.PAYLOAD_CLASS and _is_payload_of(text.strip(), properties):
            continue
        present = _present(key, properties)
        is_same = _comparable(key, key.read(text, name=name)) == _comparable(key, present)
        if key is keys.PAYLOAD_CLASS or not is_same:
            raise ConfigError(
                key=name,
                value=text,
                reason=f"the table has {_show_value(present)!r} there, since it was created; "
                "leave the option out",
            )


def _is_payload_of(payload: str, properties: TableProperties) -> bool:
    """Whether a payload class merges records as the table does."""
    own = Config(properties.raw)
    if payload in (own.get(keys.PAYLOAD_CLASS), own.get(keys.LEGACY_PAYLOAD_CLASS)):
        return True
    mode, flag = merging_of_payload(payload) or (None, None)
    return mode is properties.merge.mode and (not flag or flag == properties.merge.delete_flag)


def _refuse_other_delete_flag(options: Config, properties: TableProperties) -> None:
    """Which rows are deletes was decided when the table was created."""
    for key in (keys.DELETE_FIELD, keys.DELETE_MARKER):
        if options.sets(key) and keys.delete_flag(options) != properties.merge.delete_flag:
            raise ConfigError(
                key=options.spelling(key) or key.name,
                value=options.get(key),
                reason="the table was created with another delete flag, or none; leave the option "
                "out",
            )


def _key_of(name: str) -> Key[Any] | None:
    """The property of a table that an option speaks of."""
    if name in _TABLE_KEYS:
        return _TABLE_KEYS[name]
    rule = rule_of(name)
    return None if rule is None else rule.key


def _present(key: Key[Any], properties: TableProperties) -> object:
    """What the table says; keys that imply a merge mode are answered by it."""
    if key in (keys.KEY_GENERATOR, keys.KEY_GENERATOR_CLASS):
        return properties.keys.generator
    if key in _SAYS_MODE:
        return properties.merge.mode
    return Config(properties.raw).get(key)


def _comparable(key: Key[Any], value: Any) -> object:
    """A value such that equal ones mean the same."""
    if key in _NAMES_COLUMNS:
        # Apache Hudi's custom keys give names a kind (`city:SIMPLE`).
        return tuple(column.partition(":")[0].lower() for column in value)
    if key not in _SAYS_MODE or isinstance(value, MergeMode):
        return value
    return infer_mode(
        mode=None,
        strategy_id=value if key is keys.MERGE_STRATEGY else None,
        payload_class=value if key is keys.PAYLOAD_CLASS else None,
        has_ordering=False,
        payload_decides=True,
    )


def _show_value(value: object) -> str:
    """A value as one would write it."""
    match value:
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case tuple():
            return ",".join(value)
        case _:
            return "" if value is None else str(value)
