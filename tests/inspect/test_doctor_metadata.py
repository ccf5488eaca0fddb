"""The doctor on metadata tables: what they list otherwise than the directories is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.metadata_tables import with_metadata

from hoodoo.inspect.doctor import compare_listings, diagnose
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import FILES
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.repairs import Repair, run_repair
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.tables.metadata_tables import make_listing

Unpack = Callable[[str], Path]


def complaints(ref: TableRef) -> list[str]:
    """What is said of the metadata table."""
    return [each.problem for each in diagnose(ref, "t") if "metadata table" in each.problem]


@pytest.mark.parametrize("table", with_metadata())
def test_metadata_tables_of_apache_hudi_are_healthy(table: str, unpack: Unpack) -> None:
    assert not compare_listings(open_ref(str(unpack(table))))


def test_what_differs_is_named(unpack: Unpack, tmp_path: Path) -> None:
    path = Path(shutil.copytree(unpack("cow/v9_txns_simple_nometa"), tmp_path / "t"))
    ref = open_ref(str(path))
    assert complaints(ref) == []
    made = make_listing(ref)
    ref = open_ref(str(path))
    assert complaints(ref) == []
    files = list(DirectoryLister(ref.env, ref.properties.keys).files())
    hidden, resized, lost = files[:3]
    changes = file_changes(
        {resized.partition: {str(resized.name): resized.size_bytes + 1}},
        {hidden.partition: [str(hidden.name)]},
    )
    time, ended = InstantTime("20990101000000000"), InstantTime("20990101000000001")
    made.commit(time, {FILES: changes}, completion_time=ended)
    (path / lost.path).unlink()
    assert complaints(ref) == [
        f"the metadata table lacks 1 files that are there: {hidden.path}",
        f"the metadata table has other sizes for 1 files: {resized.path}",
        f"the metadata table lists 1 files that are not there: {lost.path}",
    ]
    found = diagnose(ref, "t")
    assert "hoodie.metadata.enable=false" in found[0].cause
    assert {each.command for each in found} == {"hoodoo index create t files --rebuild"}
    assert [each.problem for each in found if each.repair is Repair.BY_HAND] == [
        f"the metadata table lists 1 files that are not there: {lost.path}"
    ]


def test_a_damaged_metadata_table_is_reported(unpack: Unpack, tmp_path: Path) -> None:
    path = Path(shutil.copytree(unpack("mor-avro/v9_txns_simple_meta"), tmp_path / "t"))
    (base,) = [max((path / ".hoodie/metadata/files").glob("*.hfile"))]
    base.write_bytes(b"garbage")
    ref = open_ref(str(path))
    (what,) = complaints(ref)
    assert what.startswith("the metadata table cannot be used")
    assert base.name in what
    (finding,) = diagnose(ref)
    run_repair(ref, LocalEngine(threads=1), finding.repair)
    assert complaints(open_ref(str(path))) == []
