"""What goes before a cancellable plan, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.writer_machines import Fleet, Machine, rows

from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffect,
    InstantKind,
    PublishingInstant,
    find_conflicts,
)
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.services.plans.execute import choose_strategy

MANUAL: dict[str, Any] = {
    "hoodie.table.services.enabled": "false",
    "hoodie.compact.inline.max.delta.commits": 1,
    "hoodie.log.compaction.blocks.threshold": 2,
}
GROUP = FileGroupId(PartitionPath("part=a"), FileId("f-0"))
EARLIER, LATER = InstantTime("20260101000000001"), InstantTime("20260101000000002")


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.4: of the cancellable plans only clusterings give way to a write in progress that "
    "rewrites a base file",
)
@pytest.mark.parametrize(
    ("kind", "planned", "begun"),
    [
        pytest.param(
            InstantKind.COMPACTION, LATER, EARLIER, id="compaction planned after the begin"
        ),
        pytest.param(
            InstantKind.LOG_COMPACTION, EARLIER, LATER, id="log compaction planned before it"
        ),
    ],
)
def test_write_in_progress_goes_before_a_cancellable_plan(
    kind: InstantKind, planned: InstantTime, begun: InstantTime
) -> None:
    instant = Instant(begun, Action.DELTA_COMMIT, State.INFLIGHT)
    write = ConcurrentInstant(
        instant, InstantKind.INGESTION, "UPSERT", {GROUP: GroupEffect.REWRITE}
    )
    plan = PublishingInstant(planned, kind, {GROUP: GroupEffect.REWRITE})
    strategy = choose_strategy(ConflictStrategy.SIMPLE, is_cancellable=True)
    assert [conflict.concurrent.time for conflict in find_conflicts(strategy, plan, [write])] == [
        begun
    ]


# -- plans beside plans -------------------------------------------------------------------------


def schedule_compaction(machine: Machine) -> str | None:
    return machine.table.schedule_compaction(cancellable=True)


def schedule_log_compaction(machine: Machine) -> str | None:
    return machine.table.schedule_log_compaction(cancellable=True)


Schedule = Callable[[Machine], str | None]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.4: a cancellable compaction that is scheduled cancels other cancellable plans",
)
@pytest.mark.parametrize("second", [schedule_compaction, schedule_log_compaction])
@pytest.mark.parametrize("first", [schedule_compaction, schedule_log_compaction])
def test_cancellable_plan_stays_when_another_is_scheduled(
    first: Schedule, second: Schedule
) -> None:
    machine = Fleet("mor", **MANUAL).machine("one")
    machine.table.insert(rows(k1=1, k2=1))
    machine.table.upsert(rows(k2=2))
    machine.table.upsert(rows(k2=3))
    plan = first(machine)
    assert plan is not None
    second(machine)
    progress = {str(each.instant): each.progress for each in machine.table.plans()}
    assert progress.get(plan) == "waiting"
