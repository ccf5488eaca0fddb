"""Who loses of two instants in progress: pairs that our own planners avoid, and others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffect,
    InstantKind,
    PublishingInstant,
)
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.inspect.conflicts import ClashOutcome, Contender, PredictionSettings
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

GROUP = FileGroupId(PartitionPath("p_1"), FileId("00000001-one"))
SAME_BUCKET = FileGroupId(PartitionPath("p_1"), FileId("00000001-two"))
OLDER, YOUNGER = InstantTime("20260101000000000"), InstantTime("20260102000000000")


def contend(
    time: InstantTime,
    action: Action,
    kind: InstantKind,
    how: GroupEffect,
    group: FileGroupId = GROUP,
) -> Contender:
    other = ConcurrentInstant(Instant(time, action, State.INFLIGHT), kind, kind.value, {group: how})
    return Contender(other, PublishingInstant(time, kind, {group: how}))


def append(time: InstantTime, group: FileGroupId = GROUP) -> Contender:
    return contend(time, Action.DELTA_COMMIT, InstantKind.INGESTION, GroupEffect.APPEND, group)


def test_a_rewrite_loses_to_a_younger_compaction_and_an_append_does_not() -> None:
    service = contend(YOUNGER, Action.COMPACTION, InstantKind.COMPACTION, GroupEffect.REWRITE)
    rewrite = contend(OLDER, Action.DELTA_COMMIT, InstantKind.INGESTION, GroupEffect.REWRITE)
    clash = PredictionSettings(ConflictStrategy.SIMPLE, is_early=True).judge(rewrite, service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (ClashOutcome.LOSES, OLDER)
    clash = PredictionSettings(ConflictStrategy.SIMPLE, is_early=True).judge(append(OLDER), service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (ClashOutcome.BOTH_COMMIT, None)


def test_a_log_compaction_loses_to_an_older_append() -> None:
    service = contend(
        YOUNGER, Action.LOG_COMPACTION, InstantKind.LOG_COMPACTION, GroupEffect.REWRITE
    )
    clash = PredictionSettings(ConflictStrategy.SIMPLE, is_early=True).judge(append(OLDER), service)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (ClashOutcome.LOSES, YOUNGER)


@pytest.mark.parametrize(("time", "other"), [(OLDER, YOUNGER), (YOUNGER, OLDER)])
def test_a_write_loses_to_a_pending_restore(time: InstantTime, other: InstantTime) -> None:
    write = append(time)
    undo = ConcurrentInstant(
        Instant(other, Action.RESTORE, State.REQUESTED), InstantKind.UNDO, "restore"
    )
    older, younger = sorted([write, Contender(undo, None)], key=lambda each: each.time)
    clash = PredictionSettings(ConflictStrategy.SIMPLE, is_early=True).judge(older, younger)
    assert clash is not None
    assert (clash.outcome, clash.loser) == (ClashOutcome.LOSES, time)


def test_file_groups_of_one_bucket_are_the_same_only_where_buckets_count() -> None:
    pair = append(OLDER), append(YOUNGER, SAME_BUCKET)
    assert PredictionSettings(ConflictStrategy.SIMPLE, is_early=True).judge(*pair) is None
    clash = PredictionSettings(ConflictStrategy.BUCKET, is_early=True).judge(*pair)
    assert clash is not None
    assert clash.loser == YOUNGER


@pytest.mark.parametrize("is_early", [True, False])
def test_finished_instants_predict_no_conflict(is_early: bool) -> None:
    rules, dead = (
        PredictionSettings(ConflictStrategy.SIMPLE, is_early),
        replace(append(OLDER), is_over=True),
    )
    assert rules.judge(dead, append(YOUNGER)) is None
