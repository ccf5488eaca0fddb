"""The Avro records of timeline files, and how dataclasses become records and back.

The schemas are written in a notation of our own:

    <field> <type>            string, long, ...; a record's name (without `Hoodie`); [x] array;
                              {x} map from string; a|b union
    ?x                        short for null|x = null
    ... = json                the field's default
    [x]~json  {x}~json        a default on the collection type itself, where it means nothing;
                              Apache Hudi's schemas have some, and ours are equal to them

The JSON built from it says what the schemas in files of Apache Hudi 1.1 and 1.2 say, key for
key, but for their `doc` texts.

One rule binds every dataclass, without a mapping written by hand. The dataclass `CommitMetadata` is
the record `HoodieCommitMetadata`; an attribute is the field of the same name in camel case; type
hints say what a field may hold. A record may come from Avro or from JSON. Fields that we do not
know are passed over. Where a field is absent, or null though the hint has no None, the attribute's
default stands in.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from hoodoo.errors import FormatError

# -- schemas ---------------------------------------------------------------------------------------


NAMESPACE = "org.apache.hudi.avro.model"
PREFIX = "Hoodie"

_TABLE = """
CommitMetadata
  partitionToWriteStats ?{[WriteStat]}
  compacted ?boolean
  extraMetadata ?{string}~null
  version int|null = 1
  operationType ?string

ReplaceCommitMetadata
  partitionToWriteStats ?{[WriteStat]}
  compacted ?boolean
  extraMetadata ?{string}
  version int|null = 1
  operationType ?string
  partitionToReplaceFileIds ?{[string]}

WriteStat
  fileId ?string
  path ?string
  prevCommit ?string
  numWrites ?long
  numDeletes ?long
  numUpdateWrites ?long
  totalWriteBytes ?long
  totalWriteErrors ?long
  partitionPath ?string
  totalLogRecords ?long
  totalLogFiles ?long
  totalUpdatedRecordsCompacted ?long
  numInserts ?long
  totalLogBlocks ?long
  totalCorruptLogBlock ?long
  totalRollbackBlocks ?long
  fileSizeInBytes ?long
  logVersion ?int
  logOffset ?long
  baseFile ?string
  logFiles ?[string]~null
  cdcStats ?{long}~null
  prevBaseFile ?string
  minEventTime ?long
  maxEventTime ?long
  runtimeStats ?RuntimeStats
  totalLogFilesCompacted ?long
  totalLogReadTimeMs ?long
  totalLogSizeCompacted ?long
  tempPath ?string
  numUpdates ?long

RuntimeStats
  totalScanTime ?long
  totalCreateTime ?long
  totalUpsertTime ?long

CompactionPlan
  operations ?[CompactionOperation]
  extraMetadata ?{string}
  version int|null = 1
  strategy ?CompactionStrategy
  preserveHoodieMetadata boolean|null = false
  missingSchedulePartitions ?[string]

CompactionOperation
  baseInstantTime null|string
  deltaFilePaths ?[string]
  dataFilePath ?string
  fileId null|string
  partitionPath ?string
  metrics ?{double}
  bootstrapFilePath ?string

CompactionStrategy
  compactorClassName ?string
  strategyParams ?{string}
  version int|null = 1

RequestedReplaceMetadata
  operationType ?string
  clusteringPlan ?ClusteringPlan
  extraMetadata ?{string}
  version int|null = 1

ClusteringPlan
  inputGroups ?[ClusteringGroup]
  strategy ?ClusteringStrategy
  extraMetadata ?{string}
  version int|null = 1
  preserveHoodieMetadata ?boolean
  missingSchedulePartitions ?[string]

ClusteringGroup
  slices ?[SliceInfo]
  metrics ?{double}
  numOutputFileGroups int|null = 1
  extraMetadata ?{string}
  version int|null = 1

SliceInfo
  dataFilePath ?string
  deltaFilePaths ?[string]
  fileId null|string
  partitionPath ?string
  bootstrapFilePath ?string
  version int|null = 1

ClusteringStrategy
  strategyClassName ?string
  strategyParams ?{string}
  version int|null = 1

CleanerPlan
  earliestInstantToRetain ?ActionInstant
  lastCompletedCommitTimestamp string = ""
  policy string
  filesToBeDeletedPerPartition ?{[string]}
  version int|null = 1
  filePathsToBeDeletedPerPartition ?{[CleanFileInfo]}
  partitionsToBeDeleted ?[string]
  extraMetadata ?{string}~null

ActionInstant
  timestamp string
  action string
  state string

CleanFileInfo
  filePath ?string
  isBootstrapBaseFile ?boolean

CleanMetadata
  startCleanTime string
  timeTakenInMillis long
  totalFilesDeleted int
  earliestCommitToRetain string
  lastCompletedCommitTimestamp string = ""
  partitionMetadata {CleanPartitionMetadata}
  version int|null = 1
  bootstrapPartitionMetadata ?{CleanPartitionMetadata}~null
  extraMetadata ?{string}~null

CleanPartitionMetadata
  partitionPath string
  policy string
  deletePathPatterns [string]
  successDeleteFiles [string]
  failedDeleteFiles [string]
  isPartitionDeleted ?boolean

RollbackPlan
  instantToRollback ?InstantInfo
  RollbackRequests ?[RollbackRequest]
  version int|null = 1

InstantInfo
  commitTime string
  action string

RollbackRequest
  partitionPath string
  fileId ?string
  latestBaseInstant ?string
  filesToBeDeleted [string]~[] = []
  logBlocksToBeDeleted ?{long}

RollbackMetadata
  startRollbackTime string
  timeTakenInMillis long
  totalFilesDeleted int
  commitsRollback [string]
  partitionMetadata {RollbackPartitionMetadata}
  version int|null = 1
  instantsRollback [InstantInfo]~[] = []

RollbackPartitionMetadata
  partitionPath string
  successDeleteFiles [string]
  failedDeleteFiles [string]
  rollbackLogFiles ?{long}
  logFilesFromFailedCommit ?{long}

RestorePlan
  instantsToRollback [InstantInfo]~null = []
  version int|null = 2
  savepointToRestoreTimestamp ?string

RestoreMetadata
  startRestoreTime string
  timeTakenInMillis long
  instantsToRollback [string]
  hoodieRestoreMetadata {[null|RollbackMetadata]~null}
  version int|null = 1
  restoreInstantInfo [InstantInfo]~null = []

SavepointMetadata
  savepointedBy string
  savepointedAt long
  comments string
  partitionMetadata {SavepointPartitionMetadata}
  version int|null = 1

SavepointPartitionMetadata
  partitionPath string
  savepointDataFile [string]

IndexPlan
  version int|null = 1
  indexPartitionInfos ?[IndexPartitionInfo]

IndexPartitionInfo
  version int|null = 1
  metadataPartitionPath ?string
  indexUptoInstant ?string
  extraMetadata ?{string}

IndexCommitMetadata
  version int|null = 1
  operationType ?string
  indexPartitionInfos ?[IndexPartitionInfo]

LSMTimelineInstant
  instantTime ?string
  completionTime ?string
  action ?string
  metadata ?bytes
  plan ?bytes
  version int = 1
"""

# Where the snake case of a field's name would not be a good attribute.
_ATTRIBUTES = {"timestamp": "requested_time", "hoodieRestoreMetadata": "rollbacks"}

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "double", "bytes"})
_JAVA_STRING = {"avro.java.string": "String"}
_TOKEN = re.compile(r"~(?:null|\[\])|[\[\]{}|]|\w+")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def _records() -> dict[str, list[str]]:
    """The table's lines by record."""
    records = {}
    for paragraph in _TABLE.strip().split("\n\n"):
        name, *lines = paragraph.splitlines()
        records[name] = [line.strip() for line in lines]
    return records


@cache
def attributes(record: str) -> tuple[tuple[str, str], ...]:
    """The fields of a record, in order, each with the attribute that holds it in our values."""
    names = [line.split()[0] for line in _records()[record]]
    return tuple((name, _ATTRIBUTES.get(name) or _snake(name)) for name in names)


def _snake(name: str) -> str:
    return _WORD_START.sub("_", name).lower()


@cache
def schema_json(record: str) -> str:
    """The schema of a record as compact JSON, as Avro Java prints it."""
    schema = _record_schema(record, set())
    head = {"type": "record", "name": schema["name"], "namespace": NAMESPACE}
    return json.dumps(head | {"fields": schema["fields"]}, separators=(",", ":"))


def _record_schema(record: str, known_records: set[str]) -> Any:
    if record in known_records:
        return PREFIX + record
    known_records.add(record)
    fields = [_field_schema(line, known_records) for line in _records()[record]]
    return {"type": "record", "name": PREFIX + record, "fields": fields}


def _field_schema(line: str, known_records: set[str]) -> dict[str, Any]:
    definition, _, default = line.partition(" = ")
    name, notation = definition.split()
    if notation.startswith("?"):
        notation, default = f"null|{notation[1:]}", "null"
    schema = {"name": name, "type": _type_schema(_TOKEN.findall(notation), known_records)}
    return schema | {"default": json.loads(default)} if default else schema


def _type_schema(tokens: list[str], known_records: set[str]) -> Any:
    """Takes one type, or a union of several, off the front of the tokens."""
    branches = [_single_schema(tokens, known_records)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        branches.append(_single_schema(tokens, known_records))
    return branches if len(branches) > 1 else branches[0]


def _single_schema(tokens: list[str], known_records: set[str]) -> Any:
    token = tokens.pop(0)
    if token in _PRIMITIVES:
        return token
    if token == "string":
        return {"type": "string"} | _JAVA_STRING
    if token not in "[{":
        return _record_schema(token, known_records)
    inner = _type_schema(tokens, known_records)
    tokens.pop(0)  # the closing bracket
    schema = (
        {"type": "array", "items": inner}
        if token == "["
        else {"type": "map", "values": inner} | _JAVA_STRING
    )
    if tokens and tokens[0].startswith("~"):
        schema["default"] = json.loads(tokens.pop(0)[1:])
    return schema


# -- dataclasses <-> records -----------------------------------------------------------------------


T = TypeVar("T")
Convert = Callable[[Any], Any]

_INT64 = range(-(2**63), 2**63)


class _Bound(NamedTuple):
    """How one field travels."""

    field: str
    attribute: str
    read: Convert
    write: Convert | None  # None: the attribute's value goes as it is
    is_optional: bool
    has_default: bool


def from_record(cls: type[T], record: object) -> T:
    """The value of a record that was decoded from Avro or JSON."""
    if not isinstance(record, dict):
        raise FormatError(f"{cls.__name__}: expected a record, found {_kind(record)}")
    values = {}
    for bound in _bounds(cls):
        value = record.get(bound.field)
        if value is not None:
            values[bound.attribute] = bound.read(value)
        elif bound.is_optional and bound.field in record:
            values[bound.attribute] = None
        elif not bound.has_default:
            raise FormatError(f"{cls.__name__}: {bound.field} is missing")
    return cls(**values)


def to_record(value: Any) -> dict[str, Any]:
    """The record of a value, ready for Avro."""
    record = {}
    for bound in _bounds(type(value)):
        attribute_value = getattr(value, bound.attribute)
        record[bound.field] = (
            bound.write(attribute_value)
            if bound.write and attribute_value is not None
            else attribute_value
        )
    return record


_BOUNDS: dict[type[Any], tuple[_Bound, ...]] = {}


def _bounds(cls: type[Any]) -> tuple[_Bound, ...]:
    """How the fields of a class travel; worked out once."""
    if cls not in _BOUNDS:
        _BOUNDS[cls] = _bind(cls)
    return _BOUNDS[cls]


def _bind(cls: type[Any]) -> tuple[_Bound, ...]:
    hints = get_type_hints(cls)
    field_by_name: dict[str, Field[Any]] = {field.name: field for field in fields(cls)}
    bounds = []
    for name, attribute in attributes(cls.__name__):
        hint, is_optional = _without_none(hints[attribute])
        default = field_by_name[attribute]
        bounds.append(
            _Bound(
                name,
                attribute,
                _reader(hint, f"{cls.__name__}.{name}"),
                _writer(hint),
                is_optional,
                default.default is not MISSING or default.default_factory is not MISSING,
            )
        )
    return tuple(bounds)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (branch for branch in get_args(hint) if branch is not types.NoneType)
        return inner, True
    return hint, False


def _plain(hint: Any) -> Any:
    """The type behind a `NewType`."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _reader(hint: Any, where: str) -> Convert:
    """A function that checks and converts what a field holds."""
    hint, is_optional = _without_none(hint)
    hint = _plain(hint)
    if get_origin(hint) is tuple:
        read = _list_reader(_reader(get_args(hint)[0], where), where)
    elif get_origin(hint) is Mapping:
        read = _map_reader(_reader(get_args(hint)[1], where), where)
    elif is_dataclass(hint):

        def read(value: Any, of: Any = hint) -> Any:
            return from_record(of, value)

    else:
        read = _SCALARS[hint](where)
    return (lambda value: None if value is None else read(value)) if is_optional else read


def _list_reader(read: Convert, where: str) -> Convert:
    def read_list(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit(where, "a list", value)
        return tuple(map(read, value))

    return read_list


def _map_reader(read: Convert, where: str) -> Convert:
    def read_map(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(where, "a map", value)
        return {key: read(item) for key, item in value.items()}

    return read_map


def _text(where: str) -> Convert:
    def read_text(value: Any) -> Any:
        if not isinstance(value, str):
            raise _misfit(where, "text", value)
        return value

    return read_text


def _whole(where: str) -> Convert:
    def read_whole(value: Any) -> Any:
        if type(value) is not int or value not in _INT64:
            raise _misfit(where, "a whole number", value)
        return value

    return read_whole


def _number(where: str) -> Convert:
    def read_number(value: Any) -> Any:
        if type(value) not in (float, int):
            raise _misfit(where, "a number", value)
        try:
            return float(value)
        except OverflowError:
            raise _misfit(where, "a number", value) from None

    return read_number


def _truth(where: str) -> Convert:
    def read_truth(value: Any) -> Any:
        if type(value) is not bool:
            raise _misfit(where, "true or false", value)
        return value

    return read_truth


_SCALARS: dict[type, Callable[[str], Convert]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
}


def _misfit(where: str, type_name: str, value: object) -> FormatError:
    return FormatError(f"{where}: expected {type_name}, found {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__


def _writer(hint: Any) -> Convert | None:
    """A function that turns a field's value into lists, dicts and records; None for a scalar."""
    hint = _plain(_without_none(hint)[0])
    if is_dataclass(hint):
        return to_record
    if get_origin(hint) is tuple:
        write = _writer(get_args(hint)[0]) or _as_it_is
        return lambda items: [None if item is None else write(item) for item in items]
    if get_origin(hint) is Mapping:
        write = _writer(get_args(hint)[1]) or _as_it_is
        return lambda items: {
            key: None if item is None else write(item) for key, item in items.items()
        }
    return None


def _as_it_is(value: Any) -> Any:
    return value
