"""The file that makes a directory a partition."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi_files import example

from hoodoo.errors import FormatError
from hoodoo.format import properties
from hoodoo.format.properties import PartitionMetadata
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PARTITION_METADATA, PartitionPath

INSTANT = InstantTime("20260307162557587")


@pytest.mark.parametrize(
    ("partition", "depth"), [("", 0), ("region=us", 1), ("a=10/b=300", 2), ("2024/01/15/10", 4)]
)
def test_depth(partition: str, depth: int) -> None:
    assert PartitionMetadata.of(PartitionPath(partition), made_by=INSTANT).depth == depth


def test_the_example_of_the_page() -> None:
    text = example("properties.md", "properties", nth=1).encode()
    metadata = PartitionMetadata(INSTANT, 1)
    assert properties.decode(text) == metadata
    assert properties.encode(metadata, at_ms=1772922360000) == text


@given(st.integers(0, 10**17 - 1), st.integers(0, 1000))
def test_round_trip(time: int, depth: int) -> None:
    metadata = PartitionMetadata(InstantTime(f"{time:017d}"), depth)
    assert properties.decode(properties.encode(metadata)) == metadata


@pytest.mark.parametrize(
    "text",
    [
        "",
        "commitTime=20260307162557587",
        "partitionDepth=1",
        "commitTime=x\npartitionDepth=1",
        "commitTime=20260307162557587\npartitionDepth=-1",
        "commitTime=20260307162557587\npartitionDepth=99999999999",
        "commitTime=20260307162557587\npartitionDepth=\\u0661",
        "commitTime=\\u00",
    ],
)
def test_bad_files(text: str) -> None:
    with pytest.raises(FormatError):
        properties.decode(text.encode())


def test_every_fixture(fixtures: Path) -> None:
    seen = 0
    for table in sorted((fixtures / "tables").glob("*/*.zip")):
        with ZipFile(table) as archive:
            for name in archive.namelist():
                folder, _, file = name.rpartition("/")
                if file == PARTITION_METADATA and ".hoodie" not in folder.split("/"):
                    metadata = properties.decode(archive.read(name))
                    partition = PartitionPath("/".join(folder.split("/")[1:]))
                    made = PartitionMetadata.of(partition, made_by=metadata.commit_time)
                    assert metadata == made, name
                    seen += 1
    assert seen > 40
