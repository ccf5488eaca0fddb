"""Files of completed commits that are gone or damaged: nobody may call such a table healthy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import HoodooError

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])
WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table of two partitions, the file of one of which is lost."""
    place = tmp_path / "t"
    table = hoodoo.create_table(str(place), schema=SCHEMA, record_key="id", partition_by="part")
    table.insert([{"id": key, "part": part} for key, part in enumerate("aabb")])
    (lost,) = place.glob("part=b/*.parquet")
    lost.unlink()
    return place


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.6: doctor advises to read without the metadata table, which hides the loss of rows",
)
def test_doctor_does_not_advise_to_read_past_a_lost_file(place: Path) -> None:
    findings = hoodoo.open_table(str(place)).doctor()
    assert findings
    assert not [each for each in findings if "hoodie.metadata.enable=false" in each.cause]


@pytest.mark.xfail(
    strict=True,
    raises=pytest.fail.Exception,
    reason="25.6: a read without the metadata table leaves out the rows of a lost file in silence",
)
def test_read_by_listing_fails_over_a_lost_file(place: Path) -> None:
    table = hoodoo.open_table(str(place), WITHOUT_METADATA)
    with pytest.raises(HoodooError, match="part=b"):
        table.count()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.6: doctor finds no lost file in a table without a metadata table",
)
def test_doctor_finds_a_lost_file_without_a_metadata_table(tmp_path: Path) -> None:
    place = tmp_path / "plain"
    table = hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        options=WITHOUT_METADATA,
    )
    table.insert([{"id": key, "part": part} for key, part in enumerate("aabb")])
    (lost,) = place.glob("part=b/*.parquet")
    lost.unlink()
    assert any("part=b" in f"{each.problem} {each.cause}" for each in table.doctor())


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.6: a metadata table that is built anew forgets a lost file, and so does doctor",
)
def test_lost_file_is_known_after_the_metadata_table_is_built_anew(place: Path) -> None:
    table = hoodoo.open_table(str(place))
    with suppress(HoodooError):  # it may refuse to forget the file
        table.create_index("files", rebuild=True)
    assert hoodoo.open_table(str(place)).doctor() != []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.6: doctor calls a table healthy that nobody can read, because a commit is empty",
)
@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_doctor_finds_a_completed_commit_that_is_empty_or_damaged(
    tmp_path: Path, content: bytes
) -> None:
    place = tmp_path / "t"
    table = hoodoo.create_table(str(place), schema=SCHEMA, record_key="id")
    table.insert([{"id": 1, "part": "a"}])
    instant = table.insert([{"id": 2, "part": "a"}]).instant
    (commit,) = (place / ".hoodie" / "timeline").glob(f"{instant}_*.commit")
    commit.write_bytes(content)
    assert instant in {each.instant for each in hoodoo.open_table(str(place)).doctor()}
