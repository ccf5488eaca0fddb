"""Our schemas against those of Apache Hudi, and our values against our schemas."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from support.format_samples import FINGERPRINTS
from support.hudi_files import is_container, split_container, timeline_files

from hoodoo.errors import FormatError
from hoodoo.format.timeline import records
from hoodoo.format.timeline.instant_files import KINDS
from hoodoo.format.timeline.records import from_record, to_record
from hoodoo.model.commit import CommitMetadata, OperationType, RollbackMetadata, WriteStat
from hoodoo.model.plans import CompactionOperation, RestorePlan

METADATA = sorted({kind for kind in KINDS.values() if kind}, key=lambda kind: kind.__name__)
SCALARS = {"string": str, "int": int, "long": int, "double": float, "boolean": bool}


def without_docs(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    return [without_docs(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("record", FINGERPRINTS)
def test_schema_is_that_of_apache_hudi(record: str) -> None:
    digest = hashlib.sha256(records.schema_json(record).encode()).hexdigest()
    assert digest[:32] == FINGERPRINTS[record]


def test_every_kind_of_metadata_has_a_fingerprint() -> None:
    assert {kind.__name__ for kind in METADATA} | {"LSMTimelineInstant"} == set(FINGERPRINTS)


def test_schema_is_that_in_every_fixture_file(fixtures: Path) -> None:
    names = set()
    for path, _, data in timeline_files(fixtures):
        if is_container(data):
            schema = without_docs(json.loads(split_container(data)[0]))
            name = schema["name"].removeprefix("Hoodie")
            ours = records.schema_json(name)
            assert json.dumps(schema, separators=(",", ":")) == ours, path
            names.add(name)
    assert len(names) == 8


def nested(kind: type[Any]) -> Iterator[type[Any]]:
    """The dataclass and all dataclasses inside."""
    yield kind
    for hint in get_type_hints(kind).values():
        yield from nested_in(hint)


def nested_in(hint: Any) -> Iterator[type[Any]]:
    if dataclasses.is_dataclass(hint):
        yield from nested(hint)
    for inner in get_args(hint):
        yield from nested_in(inner)


def fits(hint: Any, schema: Any, *, has_default: bool) -> bool:
    """Whether values of a hint are values of an Avro type, and the other way round."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    if get_origin(hint) in (types.UnionType, Union):
        (inner,) = (branch for branch in get_args(hint) if branch is not types.NoneType)
        return "null" in schema and fits(inner, bare(schema), has_default=has_default)
    if isinstance(schema, list) and not has_default:
        return False  # a null could be neither held nor replaced
    schema = bare(schema)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if get_origin(hint) is tuple:
        item, ellipsis = get_args(hint)
        return (
            kind == "array"
            and ellipsis is ...
            and fits(item, schema["items"], has_default=has_default)
        )
    if get_origin(hint) is Mapping:
        return kind == "map" and fits(get_args(hint)[1], schema["values"], has_default=has_default)
    if dataclasses.is_dataclass(hint):
        name = schema["name"] if isinstance(schema, dict) else schema
        return bool(name == f"Hoodie{hint.__name__}")
    return SCALARS[kind] is hint


def bare(schema: Any) -> Any:
    """A union's branch that is not null."""
    if not isinstance(schema, list):
        return schema
    (branch,) = (branch for branch in schema if branch != "null")
    return branch


@pytest.mark.parametrize(
    "kind",
    sorted({inner for kind in METADATA for inner in nested(kind)}, key=str),
    ids=lambda kind: kind.__name__,
)
def test_dataclass_fits_its_schema(kind: type[Any]) -> None:
    fields = json.loads(records.schema_json(kind.__name__))["fields"]
    attributes = dict(records.attributes(kind.__name__))
    assert [attributes[field["name"]] for field in fields] == [
        field.name for field in dataclasses.fields(kind)
    ]
    hints = get_type_hints(kind)
    for schema, field in zip(fields, dataclasses.fields(kind), strict=True):
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        assert fits(hints[field.name], schema["type"], has_default=has_default), schema["name"]


def test_attribute_names() -> None:
    assert dict(records.attributes("RollbackPlan"))["RollbackRequests"] == "rollback_requests"
    assert dict(records.attributes("ActionInstant"))["timestamp"] == "requested_time"
    assert dict(records.attributes("WriteStat"))["totalLogReadTimeMs"] == "total_log_read_time_ms"


def test_absent_null_and_unknown_fields() -> None:
    commit = from_record(
        CommitMetadata,
        {"partitionToWriteStats": {"": [{"numWrites": None}]}, "compacted": None, "more": 1},
    )
    assert commit.compacted is None
    assert commit.version is None
    assert commit.partition_to_write_stats[""] == (WriteStat(),)
    assert from_record(CommitMetadata, {"extraMetadata": None}).extra_metadata == {}
    assert from_record(RestorePlan, {"version": None}) == RestorePlan(version=None)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([], "expected a record, found list"),
        ({"partitionToWriteStats": []}, "partitionToWriteStats: expected a map, found list"),
        ({"partitionToWriteStats": {"p": {}}}, "expected a list, found dict"),
        ({"partitionToWriteStats": {"p": [None]}}, "WriteStat: expected a record"),
        ({"partitionToWriteStats": {"p": [{"numWrites": "1"}]}}, "WriteStat.numWrites: expected"),
        ({"partitionToWriteStats": {"p": [{"numWrites": 2**63}]}}, "a whole number, found int"),
        ({"partitionToWriteStats": {"p": [{"numWrites": True}]}}, "a whole number, found bool"),
        ({"compacted": 0}, "compacted: expected true or false, found int"),
        ({"extraMetadata": {"schema": None}}, "extraMetadata: expected text, found NoneType"),
        ({"operationType": 3}, "operationType: expected text, found int"),
    ],
)
def test_misfits_name_the_field(record: object, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        from_record(CommitMetadata, record)


def test_numbers_with_fractions_may_be_whole() -> None:
    record = {"baseInstantTime": None, "fileId": "f", "metrics": {"a": 1, "b": 0.5}}
    metrics = from_record(CompactionOperation, record).metrics
    assert metrics == {"a": 1.0, "b": 0.5}
    with pytest.raises(FormatError, match="metrics: expected a number"):
        from_record(CompactionOperation, record | {"metrics": {"a": 10**400}})


def test_a_field_without_a_default_is_required() -> None:
    with pytest.raises(FormatError, match="RollbackMetadata: startRollbackTime is missing"):
        from_record(RollbackMetadata, {})


def test_records_hold_plain_lists_and_dicts() -> None:
    commit = CommitMetadata(
        partition_to_write_stats=types.MappingProxyType({"p": (WriteStat(log_files=("l",)),)}),
        operation_type=OperationType.UPSERT,
    )
    record = to_record(commit)
    assert type(record["partitionToWriteStats"]) is dict
    assert record["partitionToWriteStats"]["p"][0]["logFiles"] == ["l"]
    assert from_record(CommitMetadata, record) == commit
