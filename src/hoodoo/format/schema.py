"""Table schemas: Avro JSON on disk, `pyarrow.Schema` in memory.

Avro JSON is what `hoodie.properties`, commit metadata, log blocks and Parquet footers hold:

    {"type":"record","name":"<table>_record","namespace":"hoodie.<table>","fields":[
      {"name":"id","type":["null","string"],"default":null}, ...]}

    Arrow                          Avro
    string, binary, bool           string, bytes, boolean
    int32, int64, float, double    int, long, float, double
    date32                         int, logicalType date
    time32[ms], time64[us]         int time-millis, long time-micros
    timestamp[ms|us, UTC]          long timestamp-millis, timestamp-micros
    timestamp[ms|us]               long local-timestamp-millis, local-timestamp-micros
    decimal128(p, s)               fixed of the fewest bytes that hold p digits, logicalType decimal
    fixed_size_binary(n)           fixed
    list, map<string, x>, struct   array, map, record

Read, but not written: decimals of type bytes, enums (as strings), uuids (as strings). A nullable
field is a union with null, in either order; other unions are not supported.
"""

from __future__ import annotations

import json
import re
from typing import Any, overload

import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import SchemaMismatch
from hoodoo.format.arrow_types import COMMENT, fixed_size_of, normalise
from hoodoo.format.avro.schema import LOGICAL_TYPES, PRIMITIVES, load_record, parse_record

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_FIELDS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)

# A sixth one, which only changelog writers add.
OPERATION = "_hoodie_operation"

_AVRO_OF: dict[pa.DataType, Any] = {
    **{arrow: name for name, arrow in PRIMITIVES.items()},
    **{arrow: {"type": base, "logicalType": name} for (base, name), arrow in LOGICAL_TYPES.items()},
}


def arrow_from_avro(schema_json: str) -> pa.Schema:
    """The Arrow schema of an Avro record schema."""
    return pa.schema(list(parse_record(schema_json).arrow))


def avro_from_arrow(schema: pa.Schema, table_name: str) -> str:
    """The Avro record schema of an (to be normalised) Arrow schema, named as Apache Hudi does."""
    name, namespace = record_name(table_name)
    record = pa.struct(list(normalise(schema)))
    if not record.num_fields:
        raise SchemaMismatch("a table needs at least one column")
    return _dump(_avro_type(record, name, namespace))


def record_name(table_name: str) -> tuple[str, str]:
    """Name and namespace of a table's Avro record; what Avro forbids in names becomes `__`."""
    if not table_name:
        raise SchemaMismatch("a table needs a name")
    clean = re.sub(r"^[^A-Za-z_]|[^A-Za-z0-9_]", "__", table_name)
    return f"{clean}_record", f"hoodie.{clean}"


@overload
def with_meta_fields(schema: str) -> str: ...
@overload
def with_meta_fields(schema: pa.Schema) -> pa.Schema: ...
def with_meta_fields(schema: str | pa.Schema) -> str | pa.Schema:
    """The schema (Avro JSON or Arrow) with the five meta fields in front."""
    if isinstance(schema, pa.Schema):
        meta = [pa.field(name, pa.string()) for name in META_FIELDS]
        return pa.schema(meta + [field for field in schema if field.name not in META_FIELDS])
    tree = load_record(schema)
    meta = [_avro_field(pa.field(name, pa.string()), "") for name in META_FIELDS]
    return _dump({**tree, "fields": meta + _without(tree["fields"], META_FIELDS)})


@overload
def without_meta_fields(schema: str) -> str: ...
@overload
def without_meta_fields(schema: pa.Schema) -> pa.Schema: ...
def without_meta_fields(schema: str | pa.Schema) -> str | pa.Schema:
    """The schema (Avro JSON or Arrow) of the data fields alone."""
    hidden = (*META_FIELDS, OPERATION)
    if isinstance(schema, pa.Schema):
        return pa.schema([field for field in schema if field.name not in hidden])
    tree = load_record(schema)
    return _dump({**tree, "fields": _without(tree["fields"], hidden)})


def _without(fields: list[Any], names: tuple[str, ...]) -> list[Any]:
    return [f for f in fields if not (isinstance(f, dict) and f.get("name") in names)]


def _dump(tree: dict[str, Any]) -> str:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _avro_type(type_: pa.DataType, name: str, namespace: str) -> Any:
    """Avro for a table type; `name` is the field's, so that nested names stay distinct."""
    if type_ in _AVRO_OF:
        return _AVRO_OF[type_]
    if pt.is_struct(type_):
        fields = [_avro_field(field, f"{namespace}.{name}") for field in type_]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if pt.is_map(type_):
        return {"type": "map", "values": _avro_union(type_.item_field, name, namespace)}
    if pt.is_list(type_):
        return {"type": "array", "items": _avro_union(type_.value_field, name, namespace)}
    fixed_type = {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}"}
    if pt.is_decimal(type_):
        precision, scale = type_.precision, type_.scale
        decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
        return {**fixed_type, "size": fixed_size_of(precision), **decimal}
    return {**fixed_type, "size": type_.byte_width}


def _avro_union(field: pa.Field, name: str, namespace: str) -> Any:
    avro = _avro_type(field.type, name, namespace)
    return ["null", avro] if field.nullable else avro


def _avro_field(field: pa.Field, namespace: str) -> dict[str, Any]:
    avro = {"name": field.name, "type": _avro_union(field, field.name, namespace)}
    comment = (field.metadata or {}).get(COMMENT)
    if comment or field.name in META_FIELDS:
        avro["doc"] = (comment or b"").decode("utf-8", "replace")
    if field.nullable:
        avro["default"] = None
    return avro
