"""Which of two versions of a record wins. `hoodoo.rows.merge` applies this to Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MergeMode(Enum):
    """How versions of one record are ordered."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True, slots=True)
class DeleteFlag:
    """A column of the data, and the text by which it says that a row is a delete."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class MergeRule:
    """The table's merge mode, the fields whose larger value wins under event time, and the
    column, if any, by which rows say that they are deletes."""

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    updates_partially: bool = False
    delete_flag: DeleteFlag | None = None

    @property
    def is_ours(self) -> bool:
        """Whether we know how to merge: no Java class of its own, no nulls that keep old values."""
        return self.mode is not MergeMode.CUSTOM and not self.updates_partially

    @property
    def by_event_time(self) -> bool:
        return self.mode is MergeMode.EVENT_TIME_ORDERING and bool(self.ordering_fields)


COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"

_MODE_OF_STRATEGY = {
    COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME_ORDERING,
    EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME_ORDERING,
}
_MODE_OF_PAYLOAD = {
    "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME_ORDERING,
    "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME_ORDERING,
    "EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING,
}
_FLAG_OF_PAYLOAD = {"AWSDmsAvroPayload": DeleteFlag("Op", "D")}


def merging_of_payload(payload_class: str) -> tuple[MergeMode, DeleteFlag | None] | None:
    """How new tables merge that name a payload class; None for classes that we cannot stand for.

    Since version 9 a table stores this instead of the class.
    """
    name = payload_class.rpartition(".")[2]
    flag = _FLAG_OF_PAYLOAD.get(name)
    mode = MergeMode.COMMIT_TIME_ORDERING if flag else _MODE_OF_PAYLOAD.get(name)
    return None if mode is None else (mode, flag)


def infer_mode(
    *,
    mode: MergeMode | None,
    strategy_id: str | None,
    payload_class: str | None,
    has_ordering: bool,
    payload_decides: bool,
) -> MergeMode:
    """The merge mode of a table; old versions tell it by payload class, newer by strategy."""
    if mode is not None:
        return mode
    by_strategy = _MODE_OF_STRATEGY.get(strategy_id, MergeMode.CUSTOM) if strategy_id else None
    by_payload = (
        _MODE_OF_PAYLOAD.get(payload_class.rpartition(".")[2], MergeMode.CUSTOM)
        if payload_class
        else None
    )
    inferred_mode = (by_payload or by_strategy) if payload_decides else (by_strategy or by_payload)
    if inferred_mode is not None:
        return inferred_mode
    return MergeMode.EVENT_TIME_ORDERING if has_ordering else MergeMode.COMMIT_TIME_ORDERING
