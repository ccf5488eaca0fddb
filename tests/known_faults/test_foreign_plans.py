"""Plans and decisions of strangers: no file that the table needs is deleted by them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.hostile import (
    clean,
    data_file,
    move_head,
    new_table,
    plan_clean,
    plan_rollback,
    recover,
    run_or_refuse,
    upsert_one_row,
)

import hoodoo
from hoodoo.errors import FormatError, UnusablePath

Operation = Callable[[Path], None]

PROPERTIES = ".hoodie/hoodie.properties"
WRITERS = pytest.mark.parametrize("operation", [recover, upsert_one_row])
VICTIMS = pytest.mark.parametrize("victim", ["data file", PROPERTIES])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table with rows."""
    place = tmp_path / "table"
    new_table(place)
    return place


def path_of(place: Path, victim: str) -> str:
    """The path of the file that somebody wants gone."""
    return data_file(place) if victim == "data file" else victim


def assert_table_is_whole(place: Path, path: str) -> None:
    """The file is there, and all rows that were written before."""
    assert (place / path).exists()
    ids = hoodoo.open_table(str(place)).to_arrow(columns=["id"])["id"].to_pylist()
    assert {"k0", "k1", "k2"} <= set(ids)


@WRITERS
@VICTIMS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.3: a rollback plan deletes files that its instant did not make",
)
def test_a_rollback_plan_deletes_only_files_of_its_instant(
    place: Path, operation: Operation, victim: str
) -> None:
    path = path_of(place, victim)
    plan_rollback(place, path)
    run_or_refuse(operation, place)
    assert_table_is_whole(place, path)


@VICTIMS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.3: a clean plan deletes files that the latest view needs",
)
def test_a_clean_plan_deletes_no_file_that_a_view_needs(place: Path, victim: str) -> None:
    path = path_of(place, victim)
    plan_clean(place, path)
    run_or_refuse(clean, place)
    assert_table_is_whole(place, path)


@VICTIMS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.3: a decision of the head deletes a file that does not belong to its instant",
)
def test_a_decision_removes_only_files_of_its_instant(place: Path, victim: str) -> None:
    path = path_of(place, victim)
    move_head(place, "remove", path)
    run_or_refuse(upsert_one_row, place)
    assert_table_is_whole(place, path)


@WRITERS
@pytest.mark.xfail(
    strict=True,
    raises=ValueError,
    reason="27.5: a rollback plan of an unknown action ends in a bare ValueError",
)
def test_a_rollback_of_an_unknown_action_does_not_block_a_write(
    place: Path, operation: Operation
) -> None:
    plan_rollback(place, action="foo")
    with suppress(FormatError):
        operation(place)
    upsert_one_row(place)
    assert hoodoo.open_table(str(place)).count() == 4


@pytest.mark.xfail(
    strict=True,
    raises=UnusablePath,
    reason="27.5: a rollback plan of an impossible instant time ends recovery with UnusablePath",
)
def test_a_rollback_of_an_impossible_instant_time_is_a_format_error(place: Path) -> None:
    plan_rollback(place, instant="../../x")
    with suppress(FormatError):
        recover(place)
    upsert_one_row(place)
    assert hoodoo.open_table(str(place)).count() == 4


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.3: a clean says that it deleted a file outside the table",
)
def test_a_clean_plan_that_names_files_outside_the_table_is_not_carried_out(place: Path) -> None:
    plan_clean(place, "../elsewhere/id_rsa")
    done = []
    with suppress(FormatError):
        done = hoodoo.open_table(str(place)).clean()
    assert [file for result in done for file in result.files] == []
