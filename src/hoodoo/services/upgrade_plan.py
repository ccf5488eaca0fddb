"""Whether a table can be brought to version 9, and what changes then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodoo.concurrency.liveness import Pulse
from hoodoo.config import table as keys
from hoodoo.errors import TimelineError, Unsupported, WriterAlive
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.table import TableProperties, TableType
from hoodoo.services.upgrade_properties import PAYLOADS, Changes, upgrade_properties
from hoodoo.timeline.timeline import Timeline

_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
_UNDOING = frozenset({Action.ROLLBACK, Action.RESTORE})
_OLD_HUDI = "with the release of Apache Hudi that wrote it"


@dataclass(frozen=True, slots=True)
class UpgradeFacts:
    """What decides about an upgrade."""

    properties: TableProperties
    timeline: Timeline
    pulses: Mapping[InstantTime, Pulse] = field(default_factory=dict)
    """Of pending instants."""
    named_in_logs: frozenset[InstantTime] = frozenset()
    """Version 6: the base instants in the names of log files."""
    unfinished_blocks: Mapping[InstantTime, str] = field(default_factory=dict)
    """Version 6: pending writes that appended to log files; one of those each."""
    has_logs: bool = False
    """Whether rows of the table come out of log files."""
    sample_key: str | None = None
    """The key of some row."""
    foreign_file: str | None = None
    """A file in the place of the new timeline that hoodoo did not put there."""


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A property before and after; None: it is not there."""

    key: str
    old: str | None
    new: str | None


def plan_upgrade(facts: UpgradeFacts) -> Changes:
    """The properties that change; raises `Unsupported`, `WriterAlive`, `TimelineError`."""
    _refuse_features(facts)
    for instant in facts.timeline.pending:
        _refuse_alive(instant, facts.pulses[instant.requested_time])
    for instant in facts.timeline.pending:
        _refuse_pending(facts, instant)
    if facts.foreign_file is not None:
        raise TimelineError(
            f"{facts.foreign_file} is in the place of the new timeline, and hoodoo did not put it "
            "there: an upgrade by Apache Hudi was cut off. Let Apache Hudi finish it: it has moved "
            "a part of the timeline"
        )
    return upgrade_properties(facts.properties)


def describe_changes(properties: TableProperties, changes: Changes) -> tuple[PropertyChange, ...]:
    """Changes for people."""
    raw = properties.raw
    return tuple(PropertyChange(key, raw.get(key), new) for key, new in sorted(changes.items()))


def _refuse_features(facts: UpgradeFacts) -> None:
    properties = facts.properties
    raw, rule = properties.raw, properties.keys
    if raw.get("hoodie.bootstrap.base.path"):
        raise Unsupported(
            "a bootstrapped table (hoodie.bootstrap.base.path) is not upgraded by hoodoo, which "
            "does not read it: upgrade it with Apache Hudi"
        )
    typed = all(":" in field for field in raw.get(keys.PARTITION_FIELDS.name, "").split(","))
    is_old = properties.version.timeline_layout == 1
    if is_old and rule.generator is KeyGenerator.CUSTOM and rule.partition_fields and not typed:
        raise Unsupported(
            "a custom key generator needs the type of each partition field "
            f"({keys.PARTITION_FIELDS.name}=field:TYPE), which version 6 does not keep: upgrade "
            "with Apache Hudi, whose writer knows them"
        )
    if _has_bare_complex_keys(facts):
        raise Unsupported(
            f"record keys are {facts.sample_key!r}, without the field's name: the complex key "
            "generator of versions 9 writes 'field:value' for one field, so that updates would "
            "not find their rows. Write the rows into a new table"
        )
    payload = PAYLOADS.get(raw.get(keys.PAYLOAD_CLASS.name, ""))
    if payload is not None and not payload.merges_alike and facts.has_logs:
        raise Unsupported(
            f"log files of the table are merged by {raw[keys.PAYLOAD_CLASS.name]}, for which "
            "version 9 has rules that may make other rows of them: compact the table first, "
            f"{_OLD_HUDI}"
        )


def _has_bare_complex_keys(facts: UpgradeFacts) -> bool:
    rule = facts.properties.keys
    if rule.generator is not KeyGenerator.COMPLEX or len(rule.record_fields) != 1:
        return False
    key = facts.sample_key
    return key is not None and not key.startswith(f"{rule.record_fields[0]}:")


def _refuse_alive(instant: Instant, pulse: Pulse) -> None:
    """A plan that waits for an executor has no heartbeat, and nobody is at work on it."""
    is_plan = instant.action.completed_as is not instant.action or instant.action in (
        Action.CLEAN,
        Action.REPLACE_COMMIT,
    )
    waits = is_plan and instant.state is State.REQUESTED and not pulse.has_heartbeat
    if not pulse.is_dead and not waits:
        raise WriterAlive(f"{instant} is being written by {pulse}: stop all writers first")


def _refuse_pending(facts: UpgradeFacts, instant: Instant) -> None:
    """What readers and writers of version 9 could not finish, or would read in another way."""
    if instant.action is Action.INDEXING:
        raise TimelineError(
            f"{instant} builds an index of the metadata table, which an upgrade drops: finish it "
            f"or roll it back first, {_OLD_HUDI}"
        )
    if facts.properties.version.timeline_layout != 1:
        return
    time = instant.requested_time
    if instant.action in _UNDOING:
        raise TimelineError(
            f"{instant} was begun by the rules of version 6: finish it first, {_OLD_HUDI}"
        )
    if instant.action in _COMPACTIONS and time in facts.named_in_logs:
        raise TimelineError(
            f"{instant} waits, and log files were written on top of it that version 9 would not "
            f"show before it is done: run it first, {_OLD_HUDI}"
        )
    if time in facts.unfinished_blocks:
        raise TimelineError(
            f"{instant} is unfinished, and has rows in {facts.unfinished_blocks[time]}, beside "
            f"rows of others: roll it back first, {_OLD_HUDI}"
        )


def needs_log_names(properties: TableProperties, timeline: Timeline) -> bool:
    """Whether the names of log files decide."""
    is_old_mor = (
        properties.version.timeline_layout == 1 and properties.type is TableType.MERGE_ON_READ
    )
    return is_old_mor and any(each.action.writes_data for each in timeline.pending)
