"""Paths out of a metadata table of somebody else's: none leads out of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.hostile import new_table, rows
from support.sessions import local_session

import hoodoo
from hoodoo.errors import HoodooError
from hoodoo.format.hfile import HFileReader, write_hfile

OUTSIDE = "../elsewhere/city=la"
STAND_IN = "city=".ljust(len(OUTSIDE), "x")
"""A partition whose name is as long, so that lengths in the entries stay right."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def rename_in_hfile(file: Path, old: bytes, new: bytes) -> None:
    """Give a partition another name in all entries of a file of the metadata table."""
    data = file.read_bytes()
    reader = HFileReader(lambda start, length: data[start : start + length], len(data))
    entries = reader.read_all()
    renamed = sorted(
        (key.replace(old, new), value.replace(old, new))
        for key, value in zip(entries.keys.to_pylist(), entries.values.to_pylist(), strict=True)
    )
    keys, values = zip(*renamed, strict=True)
    info = {b"schema": reader.file_info[b"schema"]}
    file.write_bytes(write_hfile(pa.array(keys), pa.array(values), info=info))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table whose metadata table names a directory outside it as a partition."""
    place = tmp_path / "table"
    table = new_table(place)
    # The oldest files are opened before Spark gets the paths of all; the one outside is newer.
    for number, city in enumerate(["ny", "oslo", STAND_IN.removeprefix("city="), "rome"], start=1):
        table.upsert(rows(1, city, start=100 * number))
    hoodoo.open_table(str(place)).drop_index("files")
    hoodoo.open_table(str(place)).create_index("files")
    (file,) = (place / ".hoodie/metadata/files").glob("*.hfile")
    rename_in_hfile(file, STAND_IN.encode(), OUTSIDE.encode())
    outside = place / OUTSIDE
    (tmp_path / "elsewhere").mkdir()
    (place / STAND_IN).rename(outside.resolve())
    return place


@pytest.mark.spark
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.2: Spark is handed paths of the metadata table that lead out of the table",
)
def test_spark_reads_no_file_outside_the_table(place: Path, spark: SparkSession) -> None:
    try:
        ids = {row.id for row in hoodoo.open_table(str(place)).read(spark).select("id").collect()}
    except HoodooError:
        return
    assert "k300" not in ids
