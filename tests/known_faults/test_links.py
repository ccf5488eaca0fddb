"""Links inside a table lead nowhere: nothing outside the table is deleted, written or read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.bounded import run_bounded
from support.hostile import (
    OLD_INSTANT,
    Elsewhere,
    clean,
    data_file,
    doctor_fix,
    move_head,
    new_table,
    plan_clean,
    plan_rollback,
    recover,
    run_or_refuse,
    upsert_one_row,
)

import hoodoo
from hoodoo.errors import HoodooError

Operation = Callable[[Path], None]

HANG_S = 4
WRITERS = pytest.mark.parametrize("operation", [recover, upsert_one_row])
REPAIRERS = pytest.mark.parametrize("operation", [recover, upsert_one_row, doctor_fix])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table with rows."""
    place = tmp_path / "table"
    new_table(place)
    return place


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    """A directory beside the table."""
    return Elsewhere(tmp_path / "elsewhere")


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a sweep follows a link in place of the directory for temporary files",
)
def test_recover_leaves_a_directory_that_the_temporary_one_links_to(
    place: Path, elsewhere: Elsewhere
) -> None:
    temporary = place / ".hoodie/.aux/hoodoo/tmp"
    for file in temporary.iterdir():
        file.unlink()
    temporary.rmdir()
    temporary.symlink_to(elsewhere.place)
    run_or_refuse(recover, place)
    elsewhere.assert_untouched()


@WRITERS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: the markers of an unknown instant are deleted through a link",
)
def test_a_directory_that_a_marker_directory_links_to_is_left(
    place: Path, elsewhere: Elsewhere, operation: Operation
) -> None:
    markers = place / ".hoodie/.temp"
    markers.mkdir(exist_ok=True)
    (markers / OLD_INSTANT).symlink_to(elsewhere.place)
    run_or_refuse(operation, place)
    elsewhere.assert_untouched()


@REPAIRERS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a decision of the head writes a file through a link",
)
def test_a_decision_to_write_does_not_follow_a_link(
    place: Path, elsewhere: Elsewhere, operation: Operation
) -> None:
    (place / "link").symlink_to(elsewhere.place)
    move_head(place, "request", "link/start.pth", b"import this\n")
    run_or_refuse(operation, place)
    elsewhere.assert_untouched()


@REPAIRERS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a decision of the head deletes a file through a link",
)
def test_a_decision_to_remove_does_not_follow_a_link(
    place: Path, elsewhere: Elsewhere, operation: Operation
) -> None:
    (place / "link").symlink_to(elsewhere.place)
    move_head(place, "remove", "link/id_rsa")
    run_or_refuse(operation, place)
    elsewhere.assert_untouched()


@WRITERS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a rollback plan deletes files through a link",
)
def test_a_rollback_plan_does_not_follow_a_link(
    place: Path, elsewhere: Elsewhere, operation: Operation
) -> None:
    (place / "link").symlink_to(elsewhere.place)
    plan_rollback(place, "link/id_rsa", "link/sub/a")
    run_or_refuse(operation, place)
    elsewhere.assert_untouched()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a clean plan deletes files through a link",
)
def test_a_clean_plan_does_not_follow_a_link(place: Path, elsewhere: Elsewhere) -> None:
    (place / "link").symlink_to(elsewhere.place)
    plan_clean(place, "link/id_rsa", "link/sub/a")
    run_or_refuse(clean, place)
    elsewhere.assert_untouched()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a data file that is a link to a file outside the table is read",
)
def test_rows_of_a_data_file_that_is_a_link_are_not_read(place: Path, tmp_path: Path) -> None:
    file = place / data_file(place)
    file.rename(tmp_path / "moved.parquet")
    file.symlink_to(tmp_path / "moved.parquet")
    try:
        read = hoodoo.open_table(str(place)).count()
    except HoodooError:
        return
    assert read == 0


def count_rows(place: str) -> int:
    return hoodoo.open_table(place).count()


@pytest.mark.parametrize("victim", ["hoodie.properties", "data file"])
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.1: a pipe in place of a file of the table is waited for without end",
)
def test_a_pipe_in_place_of_a_file_is_refused(place: Path, victim: str) -> None:
    path = place / (data_file(place) if victim == "data file" else ".hoodie/hoodie.properties")
    path.unlink()
    os.mkfifo(path)
    outcome = run_bounded(count_rows, str(place), wall_s=HANG_S)
    assert outcome.ended, outcome
    assert outcome.error is not None
    assert issubclass(outcome.error, HoodooError)
