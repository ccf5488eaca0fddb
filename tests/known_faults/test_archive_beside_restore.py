"""An archival, and a restore that takes back what the archival takes into the history."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from support.laboratory import LOCK_FILE, MINUTE_S, Laboratory, Row, read_rows, rows, try_to

SHORT_TIMELINE = {
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.clean.commits.retained": 1,
    "hoodie.clean.trigger.max.commits": 100,
}
BATCHES = range(1, 7)
LOCK_CHANGES_BEFORE = 3
"""A restore takes the lock and gives it back to be decided, takes it to start, gives it back."""
BASE: Row = ("base", "p", 0)


def make_row(batch: int) -> Row:
    return (f"row {batch}", f"p{batch}", batch)


@dataclass
class Loads:
    """A table that is filled by batches."""

    laboratory: Laboratory

    def send(self, batch: int) -> bool:
        """Whether the batch was written."""
        table = self.laboratory.open()
        return not table.insert(rows(make_row(batch)), transaction=("load", batch)).is_skipped


def load() -> tuple[Loads, str]:
    """All batches sent, over some hours; and the commit before them."""
    laboratory = Laboratory(options=SHORT_TIMELINE)
    first = laboratory.open().insert(rows(BASE)).instant
    laboratory.world.pass_time(30 * MINUTE_S)
    loads = Loads(laboratory)
    for batch in BATCHES:
        loads.send(batch)
        laboratory.world.pass_time(30 * MINUTE_S)
    return loads, first


@pytest.fixture
def loads() -> Loads:
    made, first = load()
    laboratory = made.laboratory

    def restore() -> None:
        laboratory.world.pass_time(2 * MINUTE_S)
        laboratory.open().restore(first)

    # It wakes when the table is restored.
    archiver = laboratory.machine("archiver")
    archiver.stand_still_before("create", r"/history/manifest_", restore)
    try_to(archiver.table.archive)
    archiver.check_events()
    return made


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.13: a late manifest archives the commit that a restore went back to, and the table "
    "reads empty until the next commit",
)
def test_a_restored_table_whose_archiver_wakes_late_has_the_rows_of_its_target(
    loads: Loads,
) -> None:
    assert read_rows(loads.laboratory.open()) == [BASE]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.13: a late manifest archives commits that a restore took back, so their batches "
    "count as committed and are lost when they are sent again",
)
def test_batches_taken_back_beside_a_late_archiver_are_written_when_sent_again(
    loads: Loads,
) -> None:
    assert [batch for batch in BATCHES if not loads.send(batch)] == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.1: an archival while a restore is pending archives the commit that the restore goes "
    "back to, and the table reads empty until the next commit",
)
def test_an_archival_while_a_restore_is_pending_keeps_the_rows_of_its_target() -> None:
    made, first = load()
    restorer = made.laboratory.machine("restorer")
    restorer.let_others_work_after(
        "replace",
        LOCK_FILE,
        lambda: try_to(made.laboratory.open().archive),
        skip=LOCK_CHANGES_BEFORE,
    )
    restorer.table.restore(first)
    restorer.check_events()
    assert read_rows(made.laboratory.open()) == [BASE]
