"""Options of Apache Hudi's data source that an append through ours cannot honour."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.config.key import Key, boolean
from hoodoo.config.table import HIVE_STYLE, URL_ENCODE
from hoodoo.errors import InputError, Unsupported
from hoodoo.table.ref import TableRef

_WRITE = "hoodie.datasource.write."
_OPERATION = f"{_WRITE}operation"
_APPENDS = ("bulk_insert", "insert")
_CALLS = {
    "upsert": "table.upsert(df)",
    "delete": "table.delete(df)",
    "insert_overwrite": "table.insert_overwrite(df)",
    "insert_overwrite_table": "table.insert_overwrite_table(df)",
    "delete_partition": "table.delete_partitions([...])",
}
_ALL_CALLS = ", ".join(_CALLS.values())
_DROP_DUPLICATES = Key(
    f"{_WRITE}insert.drop.duplicates", boolean, False, "Leave keys out that are there."
)
_DUPLICATE_POLICY = "hoodie.datasource.insert.dup.policy"


def refuse_unsuited_options(ref: TableRef) -> None:
    """Fail if the options ask for something other than rows added to this table as it is."""
    options = ref.given.values
    _refuse_operation(ref, options)
    _refuse_key_lookup(ref, options)
    _refuse_other_layout(ref, options)


def _refuse_operation(ref: TableRef, options: Mapping[str, str]) -> None:
    operation = options.get(_OPERATION, _APPENDS[0]).strip().lower()
    if operation in _APPENDS:
        return
    call = _CALLS.get(operation, f"one of {_ALL_CALLS}")
    raise Unsupported(
        f"{_OPERATION}={operation}: this source only adds rows (bulk_insert), it looks for no "
        f"keys; with table = hoodoo.open_table({ref.uri!r}), use {call}"
    )


def _refuse_key_lookup(ref: TableRef, options: Mapping[str, str]) -> None:
    """An insert that drops or refuses keys which are there would have to look for them."""
    name = None
    if ref.given.get(_DROP_DUPLICATES):
        name = _DROP_DUPLICATES.name
    elif options.get(_DUPLICATE_POLICY, "none").strip().lower() != "none":
        name = _DUPLICATE_POLICY
    if name is not None:
        raise Unsupported(
            f"{name}={options[name]}: this source looks for no keys; with table = "
            f"hoodoo.open_table({ref.uri!r}), use table.upsert(df), which keeps keys unique"
        )


def _refuse_other_layout(ref: TableRef, options: Mapping[str, str]) -> None:
    """What was decided when the table was created cannot be changed by a write."""
    keys, merge = ref.properties.keys, ref.properties.merge
    layout = {
        f"{_WRITE}recordkey.field": ",".join(keys.record_fields),
        f"{_WRITE}partitionpath.field": ",".join(keys.partition_fields),
        f"{_WRITE}precombine.field": ",".join(merge.ordering_fields),
        f"{_WRITE}table.type": ref.properties.type.value,
        HIVE_STYLE.name: str(keys.hive_style),
        URL_ENCODE.name: str(keys.url_encode),
    }
    for name, present in layout.items():
        if name in options and _plain(options[name]) != _plain(present):
            raise InputError(
                f"{name}={options[name]}: the table has {present!r} there, since it was created; "
                "leave the option out"
            )


def _plain(text: str) -> list[str]:
    """Names without the kinds (`city:SIMPLE`) that Apache Hudi's custom keys give them."""
    return [part.strip().partition(":")[0].lower() for part in text.split(",")]
