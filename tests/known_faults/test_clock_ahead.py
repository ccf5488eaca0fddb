"""Retention by hours on a machine whose clock is wrong."""

from __future__ import annotations

import pytest
from support.laboratory import MINUTE_S, Laboratory, read_rows, rows

import hoodoo

HOUR_MS = 3_600_000


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.TimelineError,
    reason="25.7: a clean by hours goes by the cleaner's own clock, and deletes promised versions "
    "if that is ahead",
)
def test_a_clean_by_hours_on_a_machine_that_is_ahead_keeps_what_is_promised() -> None:
    laboratory = Laboratory(
        options={
            "hoodie.clean.policy": "KEEP_LATEST_BY_HOURS",
            "hoodie.clean.hours.retained": 24,
            "hoodie.clean.trigger.max.commits": 1,
        }
    )
    table = laboratory.open()
    instants = []
    for v in range(6):
        instants.append(table.upsert(rows(("a", "p", v))).instant)
        laboratory.world.pass_time(60 * MINUTE_S)
    laboratory.machine("ahead", wall_ms=22 * HOUR_MS).table.clean()
    for v, instant in enumerate(instants):
        assert read_rows(laboratory.open(), as_of=instant) == [("a", "p", v)]
