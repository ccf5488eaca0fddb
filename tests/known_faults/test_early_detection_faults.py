"""Early conflict detection: commits that tasks do not see, delays, strategies of one's own."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from support.interruptions import act_once_at
from support.writer_machines import Fleet, Machine, begin_commit, rows

from hoodoo.concurrency.markers import announce
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.config.concurrency import DetectionStrategy, MarkerType
from hoodoo.errors import ConfigError, EarlyConflict, WriteConflict
from hoodoo.model.names import BaseFileName, MarkerKind, MarkerName, WriteToken
from hoodoo.read.snapshot import take_snapshot

ENABLE = "hoodie.write.concurrency.early.conflict.detection.enable"
STRATEGY = "hoodie.write.lock.early.conflict.detection.strategy"
DELAY = "hoodie.write.lock.early.conflict.async.checker.batch.interval"
PERIOD = "hoodie.write.lock.early.conflict.async.checker.period"
MARKER = r"/\.temp/\d+/"


def make_fleet(**options: Any) -> Fleet:
    fleet = Fleet("cow", **{ENABLE: True, **options})
    fleet.machine("founder").table.insert(rows(k1=1, k2=2))
    return fleet


@pytest.mark.xfail(
    strict=True,
    raises=WriteConflict,
    reason="26.6: tasks do not look at commits, so one that lands after the begin is found when "
    "all files are written",
)
@pytest.mark.parametrize(
    "strategy", [each.value for each in DetectionStrategy if each.looks_in_tasks]
)
def test_task_finds_a_commit_that_came_after_the_begin(strategy: str) -> None:
    fleet = make_fleet(**{STRATEGY: strategy})
    older, younger = fleet.machine("older"), fleet.machine("younger", **{ENABLE: False})
    act_once_at(older, "create", MARKER, lambda: younger.table.upsert(rows(k1=5)))
    with pytest.raises(EarlyConflict):
        older.table.upsert(rows(k2=6))
    assert older.rows() == {"k1": 5, "k2": 2}


@pytest.mark.xfail(
    strict=True,
    raises=pytest.fail.Exception,
    reason="26.6: the first look of the driver waits for a whole period, whatever its delay is",
)
def test_driver_looks_for_the_first_time_when_the_delay_is_over() -> None:
    fleet = make_fleet(**{STRATEGY: "async", DELAY: 500, PERIOD: 30_000})
    older, younger = fleet.machine("older"), fleet.machine("younger")
    attempt = begin_commit(older)

    def announce_and_wait() -> None:
        announce_update(older, attempt)
        fleet.world.pass_time(1)

    act_once_at(younger, "create", MARKER, announce_and_wait)
    with pytest.raises(EarlyConflict):
        younger.table.upsert(rows(k1=5))


def announce_update(machine: Machine, attempt: Attempt) -> None:
    """A marker as a write has it that merges rows into the only file group."""
    (group,) = (piece.group for piece in take_snapshot(machine.ref).slices())
    time = attempt.instant.requested_time
    name = BaseFileName(group.file_id, WriteToken("0-1-0"), time)
    marker = MarkerName(f"{group.partition}/{name}", MarkerKind.MERGE)
    announce(machine.ref.env, time, [marker], type=MarkerType.DIRECT)


class OwnStrategy:
    """A strategy of a user; what else it has to have is for the protocol to say."""

    instances: ClassVar[list[OwnStrategy]] = []

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.instances.append(self)


@pytest.mark.xfail(
    strict=True,
    raises=ConfigError,
    reason="26.6: a class of the user's own is no strategy of early conflict detection",
)
def test_strategy_of_the_users_own_is_used() -> None:
    fleet = make_fleet(**{STRATEGY: f"{OwnStrategy.__module__}.{OwnStrategy.__qualname__}"})
    writer = fleet.machine("writer")
    writer.table.upsert(rows(k1=5))
    assert OwnStrategy.instances
