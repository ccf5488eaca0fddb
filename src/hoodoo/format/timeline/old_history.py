"""The archived timeline of layout 1: log files whose Avro blocks hold one record for each state.

    archived/.commits_.archive.<n>_<token>      the log format; records `ArchivedMetaEntry`:
        commitTime, actionType, actionState     the instant, in one of its states
        stateTransitionTime                     when it came to that state; absent in old files
        hoodieCommitMetadata, ...               what the file of that state said, as a record

A file of layout 2's archived timeline (`lsm`) holds one row for each completed instant instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hoodoo.errors import FormatError
from hoodoo.format.avro import container
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.data import avro_records
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.timeline import instant_files
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.format.timeline.records import from_record
from hoodoo.model.commit import (
    CleanMetadata,
    CommitMetadata,
    IndexCommitMetadata,
    ReplaceCommitMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from hoodoo.model.instant import Action, InstantTime, State, is_instant_time
from hoodoo.model.plans import CleanerPlan, CompactionPlan, RequestedReplaceMetadata

MERGE_PLAN = "mergeArchivePlan"
"""A file of writers that merge archive files."""

_NAME = re.compile(r"\.commits_\.archive\.(\d+)(_.*)?\Z", re.ASCII)
_ACTIONS = {action.value: action for action in Action}
_STATES = {state.name: state for state in State}

_METADATA: dict[Action, tuple[str, type[Any]]] = {
    Action.COMMIT: ("hoodieCommitMetadata", CommitMetadata),
    Action.DELTA_COMMIT: ("hoodieCommitMetadata", CommitMetadata),
    Action.REPLACE_COMMIT: ("hoodieReplaceCommitMetadata", ReplaceCommitMetadata),
    Action.CLEAN: ("hoodieCleanMetadata", CleanMetadata),
    Action.ROLLBACK: ("hoodieRollbackMetadata", RollbackMetadata),
    Action.SAVEPOINT: ("hoodieSavePointMetadata", SavepointMetadata),
    Action.INDEXING: ("hoodieIndexCommitMetadata", IndexCommitMetadata),
}
_PLANS: dict[Action, tuple[str, type[Any]]] = {
    Action.COMPACTION: ("hoodieCompactionPlan", CompactionPlan),
    Action.LOG_COMPACTION: ("hoodieCompactionPlan", CompactionPlan),
    Action.CLEAN: ("hoodieCleanerPlan", CleanerPlan),
    Action.REPLACE_COMMIT: ("hoodieRequestedReplaceMetadata", RequestedReplaceMetadata),
}


def parse_archive_name(name: str) -> int | None:
    """The number of an archive file, which grows with time; None for other files."""
    match = _NAME.match(name)
    return int(match[1]) if match else None


def decode_archive(data: bytes) -> list[ArchivedInstant]:
    """The completed instants of an archive file, by requested time."""
    entries: dict[tuple[InstantTime, Action], dict[State, tuple[Action, Mapping[str, Any]]]] = {}
    contents = read_blocks(data)
    if contents.corrupt:
        raise FormatError(f"a damaged block: {contents.corrupt[0].reason}")
    for block in contents.blocks:
        if block.type is not BlockType.AVRO_DATA:
            continue
        for record in container.decode_records(block.schema_json, avro_records(block)):
            time, action, state = _identify(record)
            states = entries.setdefault((time, action.completed_as), {})
            states[state] = action, record
    instants = (_make_instant(time, of, states) for (time, of), states in entries.items())
    return sorted(filter(None, instants), key=lambda each: each.requested_time)


def _identify(record: Mapping[str, Any]) -> tuple[InstantTime, Action, State]:
    time, action = record.get("commitTime"), _ACTIONS.get(str(record.get("actionType")))
    # Before actions had states in the archive, only completed ones were kept.
    state = _STATES.get(str(record.get("actionState") or State.COMPLETED.name))
    if not isinstance(time, str) or not is_instant_time(time) or action is None or state is None:
        words = [record.get(key) for key in ("commitTime", "actionType", "actionState")]
        raise FormatError(f"an archived instant {words} that is not understood")
    return InstantTime(time), action, state


def _make_instant(
    time: InstantTime, action: Action, states: Mapping[State, tuple[Action, Mapping[str, Any]]]
) -> ArchivedInstant | None:
    """One row of what an instant's records say; None if it was never completed."""
    if State.COMPLETED not in states:
        return None
    completion = states[State.COMPLETED][1]
    completion_time = completion.get("stateTransitionTime")
    return ArchivedInstant(
        requested_time=time,
        completion_time=InstantTime(completion_time)
        if isinstance(completion_time, str) and completion_time
        else None,
        action=action,
        metadata=_encode(completion, _METADATA.get(action)),
        plan=_find_plan(states.values()),
    )


def _find_plan(states: Iterable[tuple[Action, Mapping[str, Any]]]) -> bytes | None:
    for action, record in states:
        plan = _encode(record, _PLANS.get(action))
        if plan is not None:
            return plan
    return None


def _encode(record: Mapping[str, Any], place: tuple[str, type[Any]] | None) -> bytes | None:
    """The bytes of a timeline file that says what is in this place of a record."""
    if place is None or record.get(place[0]) is None:
        return None
    content, kind = record[place[0]], place[1]
    if isinstance(content, str):  # old files have the JSON of the commit there
        return instant_files.encode(instant_files.decode_as(content.encode(), kind))
    return instant_files.encode(from_record(kind, content))
