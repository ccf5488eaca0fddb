"""The Avro schema of the values in a metadata table, and the types of its parts.

Every HFile of a metadata table holds the schema in its file info, every log block in its header.
Ours says what Apache Hudi 1.1 writes, key for key, but for the `doc` texts. Values name no
fields, so the order here is the order of the bytes:

    5 meta fields            null; after a compaction the last one names the new base file
    key                      "": the key of the HFile entry is the key
    type                     `RecordKind`
    filesystemMetadata       map: name -> size, deleted or not          partition `files`
    BloomFilterMetadata      a bloom filter                             `bloom_filters`
    ColumnStatsMetadata      bounds and counts of one column            `column_stats`, ...
    recordIndexMetadata      the file group of a record key             `record_index`
    SecondaryIndexMetadata   that an entry is there                     `secondary_index_*`

Of the last five, one is there and the others are null.
"""

from __future__ import annotations

import json
from enum import IntEnum
from functools import cache
from typing import Any

from hoodoo.format.avro.schema import AvroType, parse_record

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
FILES = "filesystemMetadata"
BLOOM_FILTER = "BloomFilterMetadata"
COLUMN_STATS = "ColumnStatsMetadata"
RECORD_INDEX = "recordIndexMetadata"
SECONDARY_INDEX = "SecondaryIndexMetadata"


class RecordKind(IntEnum):
    """What a record is about; the value is its `type` on disk."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7

    @property
    def payload(self) -> str:
        """The field that is not null in records of this kind."""
        return _PAYLOADS[self]


_PAYLOADS = {
    RecordKind.ALL_PARTITIONS: FILES,
    RecordKind.FILES: FILES,
    RecordKind.COLUMN_STATS: COLUMN_STATS,
    RecordKind.BLOOM_FILTER: BLOOM_FILTER,
    RecordKind.RECORD_INDEX: RECORD_INDEX,
    RecordKind.PARTITION_STATS: COLUMN_STATS,
    RecordKind.SECONDARY_INDEX: SECONDARY_INDEX,
}


class Wrapper(IntEnum):
    """The types that a bound can have; the value is the branch of the union on disk."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    LOCAL_DATE = 12
    ARRAY = 13


_TEXT = {"type": "string", "avro.java.string": "String"}
_WRAPPERS: tuple[tuple[str, Any], ...] = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", _TEXT),
    ("DateWrapper", "int"),
    (
        "DecimalWrapper",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicrosWrapper", "long"),
    ("LocalDateWrapper", "int"),
)


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def _optional_field(name: str, *types: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", *types], "default": None}


def _field_with_default(name: str, type_: str, default: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "default": default}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _column_stats() -> dict[str, Any]:
    wrappers = [_record(name, _field("value", type_)) for name, type_ in _WRAPPERS]
    names = [name for name, _ in _WRAPPERS]
    items = {"type": "array", "items": ["null", *names]}
    array = _record("ArrayWrapper", _optional_field("wrappedValues", items))
    return _record(
        "HoodieMetadataColumnStats",
        _optional_field("fileName", _TEXT),
        _optional_field("columnName", _TEXT),
        # Types are defined where they are first used, and named from there on.
        _optional_field("minValue", *wrappers, array),
        _optional_field("maxValue", *names, "ArrayWrapper"),
        _optional_field("valueCount", "long"),
        _optional_field("nullCount", "long"),
        _optional_field("totalSize", "long"),
        _optional_field("totalUncompressedSize", "long"),
        _field("isDeleted", "boolean"),
        _field_with_default("isTightBound", "boolean", False),
        _optional_field(
            "valueType",
            _record(
                "HoodieValueTypeInfo",
                _field("typeOrdinal", "int"),
                _optional_field("additionalInfo", _TEXT),
            ),
        ),
    )


def _payloads() -> list[dict[str, Any]]:
    files = _record(
        "HoodieMetadataFileInfo", _field("size", "long"), _field("isDeleted", "boolean")
    )
    bloom_filter = _record(
        "HoodieMetadataBloomFilter",
        _field("type", _TEXT),
        _field("timestamp", _TEXT),
        _field("bloomFilter", "bytes"),
        _field("isDeleted", "boolean"),
    )
    record_index = _record(
        "HoodieRecordIndexInfo",
        _optional_field("partitionName", _TEXT),
        _optional_field("fileIdHighBits", "long"),
        _optional_field("fileIdLowBits", "long"),
        _optional_field("fileIndex", "int"),
        _optional_field("fileId", _TEXT),
        _optional_field("instantTime", "long"),
        _field_with_default("fileIdEncoding", "int", 0),
        _optional_field("position", "long"),
    )
    secondary_index = _record("HoodieSecondaryIndexInfo", _field("isDeleted", "boolean"))
    return [
        _field(FILES, ["null", {"type": "map", "values": files, "avro.java.string": "String"}]),
        _optional_field(BLOOM_FILTER, bloom_filter),
        _optional_field(COLUMN_STATS, _column_stats()),
        _optional_field(RECORD_INDEX, record_index),
        _optional_field(SECONDARY_INDEX, secondary_index),
    ]


@cache
def schema_json(*, meta_fields: bool = True) -> str:
    """The schema as compact JSON; commits of a metadata table note it without meta fields."""
    head = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
    }
    metas = [_optional_field(name, "string") for name in META_FIELDS if meta_fields]
    fields = [*metas, _field("key", _TEXT), _field("type", "int"), *_payloads()]
    return json.dumps(head | {"fields": fields}, separators=(",", ":"))


RECORD: AvroType = parse_record(schema_json(), unions=True)
"""The schema as a tree of types, with the Arrow types that hold the values."""

BOUND = next(
    field.type for field in RECORD.arrow.field(COLUMN_STATS).type if field.name == "minValue"
)
"""The Arrow type of bounds: a dense union, `Wrapper` being its type code."""
