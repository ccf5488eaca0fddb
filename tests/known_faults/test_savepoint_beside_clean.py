"""Savepoints of old commits, beside a clean that deletes their files, and below its floor."""

from __future__ import annotations

import pytest
from support.laboratory import (
    HEAD_FILE,
    MINUTE_S,
    Laboratory,
    Machine,
    Row,
    read_rows,
    rows,
    try_to,
)

import hoodoo

RETAIN_ONE = {
    "hoodie.clean.commits.retained": 1,
    "hoodie.clean.trigger.max.commits": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}
METADATA = pytest.mark.parametrize("has_metadata", [False, True])
DECISIONS_BEFORE_ITS_END = 1
"""A clean is decided when it is planned, and again when all of its files are deleted."""


def write_commits(laboratory: Laboratory) -> list[str]:
    table = laboratory.open()
    instants: list[str] = [table.insert(rows(("a", "p", 1), ("x", "q", 1))).instant]
    for v in range(2, 7):
        new: Row = (f"new {v}", f"q{v % 2}", v)
        instants.append(table.upsert(rows(("a", "p", v), new)).instant)
        laboratory.world.pass_time(30 * MINUTE_S)
    return instants


class Promise:
    """A savepoint that somebody asks for; if it is acknowledged, it holds."""

    def __init__(self, laboratory: Laboratory, instant: str) -> None:
        self._laboratory = laboratory
        self._instant = instant
        self._rows = read_rows(laboratory.open(), as_of=instant)
        self._refusal: hoodoo.HoodooError | None = None

    def ask(self) -> None:
        table = self._laboratory.open()
        self._refusal = try_to(lambda: table.savepoint(self._instant))

    def check(self) -> None:
        """The table goes back to what it was then, unless the savepoint was refused."""
        if self._refusal is not None:
            return
        self._laboratory.world.pass_time(30 * MINUTE_S)
        table = self._laboratory.open()
        table.restore(self._instant)
        assert read_rows(table) == self._rows


def make_cleaner(laboratory: Laboratory) -> Machine:
    return laboratory.machine("cleaner")


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.2: a savepoint is acknowledged when a clean has deleted its files already",
)
@METADATA
def test_a_savepoint_acknowledged_before_a_clean_completes_can_be_restored(
    has_metadata: bool,
) -> None:
    laboratory = Laboratory(has_metadata=has_metadata, options=RETAIN_ONE)
    promise = Promise(laboratory, write_commits(laboratory)[1])
    cleaner = make_cleaner(laboratory)
    cleaner.stand_still_before("create", r"/timeline/\d+_\d+\.clean$", promise.ask)
    try_to(cleaner.table.clean)
    cleaner.check_events()
    promise.check()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.2: a dead cleaner leaves the time for ever in which savepoints are acknowledged "
    "that lack files",
)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_savepoint_acknowledged_after_a_cleaner_died_can_be_restored(table_type: str) -> None:
    laboratory = Laboratory(table_type, options=RETAIN_ONE)
    promise = Promise(laboratory, write_commits(laboratory)[1])
    cleaner = make_cleaner(laboratory)
    cleaner.die_before("replace", HEAD_FILE, skip=DECISIONS_BEFORE_ITS_END)
    cleaner.die_over(cleaner.table.clean)
    laboratory.world.pass_time(30 * MINUTE_S)
    promise.ask()
    promise.check()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.2: a savepoint that is acknowledged while a clean deletes is read with rows missing",
)
def test_a_savepoint_acknowledged_while_a_clean_deletes_is_read_whole_or_not_at_all() -> None:
    laboratory = Laboratory(options=RETAIN_ONE)
    instant = write_commits(laboratory)[1]
    expected = read_rows(laboratory.open(), as_of=instant)
    answers: list[list[Row] | hoodoo.HoodooError] = []

    def keep_and_read() -> None:
        table = laboratory.open()
        try:
            table.savepoint(instant)
            answers.append(read_rows(table, as_of=instant))
        except hoodoo.HoodooError as error:
            answers.append(error)

    cleaner = make_cleaner(laboratory)
    cleaner.stand_still_before("replace", HEAD_FILE, keep_and_read, skip=DECISIONS_BEFORE_ITS_END)
    try_to(cleaner.table.clean)
    cleaner.check_events()
    (answer,) = answers
    assert isinstance(answer, hoodoo.HoodooError) or answer == expected


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.TimelineError,
    reason="25.2: a read as of a savepoint below the floor of a clean is refused, although its "
    "files are there",
)
@METADATA
def test_a_savepoint_below_the_floor_of_a_later_clean_can_be_read(has_metadata: bool) -> None:
    laboratory = Laboratory(has_metadata=has_metadata, options=RETAIN_ONE)
    instant = write_commits(laboratory)[1]
    expected = read_rows(laboratory.open(), as_of=instant)
    table = laboratory.open()
    table.savepoint(instant)
    table.clean()
    assert read_rows(laboratory.open(), as_of=instant) == expected
