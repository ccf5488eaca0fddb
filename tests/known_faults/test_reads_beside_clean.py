"""Reads of the past, and writes that read, beside a clean that deletes what they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.laboratory import HEAD_FILE, MINUTE_S, Laboratory, Row, read_rows, rows

import hoodoo

RETAIN_ONE = {"hoodie.clean.commits.retained": 1, "hoodie.clean.trigger.max.commits": 1}
TABLES = pytest.mark.parametrize(
    ("table_type", "has_metadata"),
    [("cow", False), ("cow", True), ("mor", False), ("mor", True)],
)
TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])
DECISIONS_BEFORE_ITS_END = 1
"""A clean is decided when it is planned, and again when all of its files are deleted."""


@dataclass
class Past:
    """A table with old commits, one of which a clean no longer promises."""

    laboratory: Laboratory
    instants: list[str]
    expected: list[Row]
    """As of the second commit."""

    def read(self) -> list[Row] | hoodoo.HoodooError:
        """The rows as of the second commit, or why they cannot be read."""
        return self.read_by(self.laboratory.open())

    def read_by(self, table: hoodoo.Table) -> list[Row] | hoodoo.HoodooError:
        try:
            return read_rows(table, as_of=self.instants[1])
        except hoodoo.HoodooError as error:
            return error

    def is_right(self, answer: list[Row] | hoodoo.HoodooError) -> bool:
        """Whether a reader got the rows, or was told that this past is no longer kept."""
        return answer == self.expected or isinstance(answer, hoodoo.TimelineError)


def make_past(table_type: str, *, has_metadata: bool) -> Past:
    laboratory = Laboratory(table_type, has_metadata=has_metadata, options=RETAIN_ONE)
    table = laboratory.open()
    instants: list[str] = [table.insert(rows(("a", "p", 1), ("x", "q", 1))).instant]
    for v in range(2, 7):
        new: Row = (f"new {v}", f"q{v % 2}", v)
        instants.append(table.upsert(rows(("a", "p", v), new)).instant)
        laboratory.world.pass_time(30 * MINUTE_S)
        if table_type == "mor" and v in (3, 5):
            planned = table.schedule_compaction()
            if planned is not None:
                table.run_compaction(planned)
    return Past(laboratory, instants, read_rows(table, as_of=instants[1]))


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.3: a read as of a commit below the floor of a clean that is at work gives wrong "
    "rows, or an error that names a missing file",
)
@TABLES
def test_a_read_below_the_floor_of_a_clean_at_work_is_right_or_refused(
    table_type: str, has_metadata: bool
) -> None:
    past = make_past(table_type, has_metadata=has_metadata)
    answers: list[list[Row] | hoodoo.HoodooError] = []
    cleaner = past.laboratory.machine("cleaner")
    cleaner.let_others_work_before(
        "replace",
        HEAD_FILE,
        lambda: answers.append(past.read()),
        skip=DECISIONS_BEFORE_ITS_END,
    )
    cleaner.table.clean()
    cleaner.check_events()
    assert all(map(past.is_right, answers)), answers


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.3: a read as of a commit below the floor of a clean that died gives wrong rows, or "
    "an error that names a missing file",
)
@TABLES
def test_a_read_below_the_floor_of_a_dead_clean_is_right_or_refused(
    table_type: str, has_metadata: bool
) -> None:
    past = make_past(table_type, has_metadata=has_metadata)
    cleaner = past.laboratory.machine("cleaner")
    cleaner.die_before("replace", HEAD_FILE, skip=DECISIONS_BEFORE_ITS_END)
    cleaner.die_over(cleaner.table.clean)
    past.laboratory.world.pass_time(30 * MINUTE_S)
    answer = past.read()
    assert past.is_right(answer), answer


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.3: a reader asks for the floor before it lists files, so a clean in between goes "
    "unseen",
)
@TABLE_TYPES
def test_a_reader_paused_between_timeline_and_files_is_right_or_refused(table_type: str) -> None:
    past = make_past(table_type, has_metadata=False)
    reader = past.laboratory.machine("reader")
    clean: Callable[[], object] = past.laboratory.open().clean
    reader.let_others_work_before("list", r"^part=p$", clean)
    answer = past.read_by(reader.table)
    reader.check_events()
    assert past.is_right(answer), answer


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.ObjectNotFound,
    reason="25.3: with a metadata table, changes below the floor of a clean at work end with a "
    "missing file instead of the refusal",
)
@TABLE_TYPES
def test_changes_below_the_floor_of_a_dead_clean_are_refused_by_name(table_type: str) -> None:
    past = make_past(table_type, has_metadata=True)
    cleaner = past.laboratory.machine("cleaner")
    cleaner.die_before("replace", HEAD_FILE, skip=DECISIONS_BEFORE_ITS_END)
    cleaner.die_over(cleaner.table.clean)
    table = past.laboratory.open()
    with pytest.raises(hoodoo.SnapshotCleaned):
        table.changes(since=past.instants[0], until=past.instants[2], deletes=True)


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.ObjectNotFound,
    reason="25.17: a write by a predicate whose files are cleaned while it reads fails instead of "
    "starting over",
)
@pytest.mark.parametrize("has_metadata", [False, True])
def test_a_delete_whose_files_are_cleaned_while_it_reads_starts_over(has_metadata: bool) -> None:
    laboratory = Laboratory(
        has_metadata=has_metadata,
        options={**RETAIN_ONE, "hoodie.write.num.retries.on.conflict.failures": 3},
    )
    laboratory.open().insert(rows(("a", "p", 1), ("b", "p", 1)))

    def change_and_clean() -> None:
        table = laboratory.open()
        for v in range(2, 6):
            table.upsert(rows(("a", "p", v)))
        table.clean()

    writer = laboratory.machine("writer")
    writer.let_others_work_before("open_read", r"\.parquet$", change_and_clean)
    writer.table.delete(where="id = 'b'")
    writer.check_events()
    assert read_rows(laboratory.open()) == [("a", "p", 5)]
