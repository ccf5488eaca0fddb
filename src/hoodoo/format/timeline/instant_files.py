"""The content of timeline files: which record a file of each action and state holds.

    action         requested                  inflight          completed
    commit         -                          CommitMetadata    CommitMetadata
    deltacommit    -                          CommitMetadata    CommitMetadata
    replacecommit  RequestedReplaceMetadata   CommitMetadata    ReplaceCommitMetadata
    clustering     RequestedReplaceMetadata   -                 as replacecommit
    compaction     CompactionPlan             -                 as commit
    logcompaction  CompactionPlan             -                 as deltacommit
    clean          CleanerPlan                - (CleanerPlan)   CleanMetadata
    rollback       RollbackPlan               -                 RollbackMetadata
    restore        RestorePlan                -                 RestoreMetadata
    savepoint      -                          -                 SavepointMetadata
    indexing       IndexPlan                  -                 IndexCommitMetadata

`-` is an empty file. Any inflight file may be empty, and so may a requested replacecommit. A
file is an Avro container with one record named `Hoodie...`; what is CommitMetadata or
ReplaceCommitMetadata above is a JSON object in layout 1, with the same field names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeVar

from hoodoo.errors import FormatError, UnsupportedFeature
from hoodoo.format.avro import container
from hoodoo.format.timeline import records
from hoodoo.format.timeline.records import from_record, to_record
from hoodoo.model.commit import (
    CleanMetadata,
    CommitMetadata,
    IndexCommitMetadata,
    ReplaceCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from hoodoo.model.instant import Action, State
from hoodoo.model.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
)

Metadata = (
    CommitMetadata
    | CleanMetadata
    | RollbackMetadata
    | RestoreMetadata
    | SavepointMetadata
    | IndexCommitMetadata
    | CompactionPlan
    | RequestedReplaceMetadata
    | CleanerPlan
    | RollbackPlan
    | RestorePlan
    | IndexPlan
)
T = TypeVar("T", bound=Metadata)
Kind = type[Metadata] | None

_R, _I, _C = State.REQUESTED, State.INFLIGHT, State.COMPLETED

KINDS: dict[tuple[Action, State], Kind] = {
    (Action.COMMIT, _R): None,
    (Action.COMMIT, _I): CommitMetadata,
    (Action.COMMIT, _C): CommitMetadata,
    (Action.DELTA_COMMIT, _R): None,
    (Action.DELTA_COMMIT, _I): CommitMetadata,
    (Action.DELTA_COMMIT, _C): CommitMetadata,
    (Action.REPLACE_COMMIT, _R): RequestedReplaceMetadata,
    (Action.REPLACE_COMMIT, _I): CommitMetadata,
    (Action.REPLACE_COMMIT, _C): ReplaceCommitMetadata,
    (Action.CLUSTERING, _R): RequestedReplaceMetadata,
    (Action.CLUSTERING, _I): None,
    (Action.COMPACTION, _R): CompactionPlan,
    (Action.COMPACTION, _I): None,
    (Action.LOG_COMPACTION, _R): CompactionPlan,
    (Action.LOG_COMPACTION, _I): None,
    (Action.CLEAN, _R): CleanerPlan,
    (Action.CLEAN, _I): CleanerPlan,
    (Action.CLEAN, _C): CleanMetadata,
    (Action.ROLLBACK, _R): RollbackPlan,
    (Action.ROLLBACK, _I): None,
    (Action.ROLLBACK, _C): RollbackMetadata,
    (Action.RESTORE, _R): RestorePlan,
    (Action.RESTORE, _I): None,
    (Action.RESTORE, _C): RestoreMetadata,
    (Action.SAVEPOINT, _R): None,
    (Action.SAVEPOINT, _I): None,
    (Action.SAVEPOINT, _C): SavepointMetadata,
    (Action.INDEXING, _R): IndexPlan,
    (Action.INDEXING, _I): None,
    (Action.INDEXING, _C): IndexCommitMetadata,
}
"""What a file of each action and state holds; None is an empty file."""

_SMALL_BYTES = 64 << 10
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def encode(metadata: Metadata) -> bytes:
    """The bytes of a timeline file, in layout 2."""
    schema = records.schema_json(type(metadata).__name__)
    return container.write(schema, to_record(metadata))


def decode(data: bytes, action: Action, state: State) -> Metadata | None:
    """What a timeline file holds; None if it is empty and may be."""
    key = (action.completed_as if state is _C else action, state)
    if key not in KINDS:
        raise UnsupportedFeature(f"content of a {state.value} {action.value} is not understood")
    kind = KINDS[key]
    if data:
        if kind is None:
            raise FormatError(f"{len(data)} bytes where a {state.value} {action.value} has none")
        return decode_as(data, kind)
    if kind is None or state is _I or key == (Action.REPLACE_COMMIT, _R):
        return None
    raise FormatError(f"empty: the writer of this {state.value} {action.value} crashed")


def decode_as(data: bytes, kind: type[T]) -> T:
    """A file that is known to hold this kind of metadata."""
    if not data:
        raise FormatError(f"empty, where {kind.__name__} is expected")
    return _decode_small(kind)(data) if len(data) <= _SMALL_BYTES else _decode(kind, data)


def _decode(kind: type[T], data: bytes) -> T:
    if issubclass(kind, CommitMetadata) and not data.startswith(container.MAGIC):
        return from_record(kind, _json(data))
    name, record = container.read_one(data)
    if name != records.PREFIX + kind.__name__:
        raise FormatError(f"holds {name}, where {records.PREFIX}{kind.__name__} is expected")
    return from_record(kind, record)


# A write reads the last commits several times, for its snapshot, at the gate, after a conflict.
_SMALL: dict[type[Any], Callable[[bytes], Any]] = {}


def _decode_small(kind: type[T]) -> Callable[[bytes], T]:
    """What decodes small files of a kind, and remembers some."""
    if kind not in _SMALL:
        _SMALL[kind] = lru_cache(maxsize=64)(partial(_decode, kind))
    return _SMALL[kind]


def _json(data: bytes) -> Any:
    """The JSON of a commit in layout 1."""
    try:
        text = data.decode()
        value = json.loads(text)
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # half a pair is no text
    except (ValueError, RecursionError) as error:
        raise FormatError(f"neither an Avro container nor JSON: {error}"[:200]) from error
    return value
