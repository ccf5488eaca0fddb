"""The Avro records of timeline files, in a notation of our own.

    <field> <type>            string, long, ...; a record's name (without `Hoodie`); [x] array;
                              {x} map from string; a|b union
    ?x                        short for null|x = null
    ... = json                the field's default
    [x]~json  {x}~json        a default on the collection type itself, where it means nothing;
                              Apache Hudi's schemas have some, and ours are equal to them

The JSON built from it says what the schemas in files of Apache Hudi 1.1 and 1.2 say, key for
key, but for their `doc` texts.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

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


def _record_schema(record: str, defined: set[str]) -> Any:
    if record in defined:
        return PREFIX + record
    defined.add(record)
    fields = [_field_schema(line, defined) for line in _records()[record]]
    return {"type": "record", "name": PREFIX + record, "fields": fields}


def _field_schema(line: str, defined: set[str]) -> dict[str, Any]:
    definition, _, default = line.partition(" = ")
    name, notation = definition.split()
    if notation.startswith("?"):
        notation, default = f"null|{notation[1:]}", "null"
    schema = {"name": name, "type": _type_schema(_TOKEN.findall(notation), defined)}
    return schema | {"default": json.loads(default)} if default else schema


def _type_schema(tokens: list[str], defined: set[str]) -> Any:
    """Takes one type, or a union of several, off the front of the tokens."""
    branches = [_single_schema(tokens, defined)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        branches.append(_single_schema(tokens, defined))
    return branches if len(branches) > 1 else branches[0]


def _single_schema(tokens: list[str], defined: set[str]) -> Any:
    token = tokens.pop(0)
    if token in _PRIMITIVES:
        return token
    if token == "string":
        return {"type": "string"} | _JAVA_STRING
    if token not in "[{":
        return _record_schema(token, defined)
    inner = _type_schema(tokens, defined)
    tokens.pop(0)  # the closing bracket
    schema = (
        {"type": "array", "items": inner}
        if token == "["
        else {"type": "map", "values": inner} | _JAVA_STRING
    )
    if tokens and tokens[0].startswith("~"):
        schema["default"] = json.loads(tokens.pop(0)[1:])
    return schema
