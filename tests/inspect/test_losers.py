"""Who loses of two instants in progress: pairs that our own planners avoid, and others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hoodoo.concurrency.conflict import Kind, Mine, Other, Touch
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.inspect.losers import Contender, Outcome, Rules
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

GROUP = FileGroupId(PartitionPath("p_1"), FileId("00000001-one"))
SAME_BUCKET = FileGroupId(PartitionPath("p_1"), FileId("00000001-two"))
OLDER, YOUNGER = InstantTime("20260101000000000"), InstantTime("20260102000000000")


def contend(
    time: InstantTime, action: Action, kind: Kind, how: Touch, group: FileGroupId = GROUP
) -> Contender:
    other = Other(Instant(time, action, State.INFLIGHT), kind, kind.value, {group: how})
    return Contender(other, Mine(time, kind, {group: how}))


def append(time: InstantTime, group: FileGroupId = GROUP) -> Contender:
    return contend(time, Action.DELTA_COMMIT, Kind.INGESTION, Touch.APPEND, group)


def test_a_rewrite_loses_to_a_younger_compaction_and_an_append_does_not() -> None:
    service = contend(YOUNGER, Action.COMPACTION, Kind.COMPACTION, Touch.REWRITE)
    rewrite = contend(OLDER, Action.DELTA_COMMIT, Kind.INGESTION, Touch.REWRITE)
    clash = Rules(ConflictStrategy.SIMPLE, is_early=True).judge(rewrite, service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (Outcome.LOSES, OLDER)
    clash = Rules(ConflictStrategy.SIMPLE, is_early=True).judge(append(OLDER), service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (Outcome.BOTH_COMMIT, None)


def test_a_log_compaction_loses_to_an_older_append() -> None:
    service = contend(YOUNGER, Action.LOG_COMPACTION, Kind.LOG_COMPACTION, Touch.REWRITE)
    clash = Rules(ConflictStrategy.SIMPLE, is_early=True).judge(append(OLDER), service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (Outcome.LOSES, YOUNGER)


@pytest.mark.parametrize(("time", "other"), [(OLDER, YOUNGER), (YOUNGER, OLDER)])
def test_a_write_loses_to_a_pending_restore(time: InstantTime, other: InstantTime) -> None:
    write = append(time)
    undo = Other(Instant(other, Action.RESTORE, State.REQUESTED), Kind.UNDO, "restore")
    older, younger = sorted([write, Contender(undo, None)], key=lambda each: each.time)
    clash = Rules(ConflictStrategy.SIMPLE, is_early=True).judge(older, younger)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (Outcome.LOSES, time)


def test_file_groups_of_one_bucket_are_the_same_only_where_buckets_count() -> None:
    pair = append(OLDER), append(YOUNGER, SAME_BUCKET)
    assert Rules(ConflictStrategy.SIMPLE, is_early=True).judge(*pair) is None
    clash = Rules(ConflictStrategy.BUCKET, is_early=True).judge(*pair)
    assert clash is not None
    assert clash.loser == YOUNGER


@pytest.mark.parametrize("is_early", [True, False])
def test_nobody_clashes_with_what_is_over(is_early: bool) -> None:
    rules, dead = Rules(ConflictStrategy.SIMPLE, is_early), replace(append(OLDER), is_over=True)
    assert rules.judge(dead, append(YOUNGER)) is None
