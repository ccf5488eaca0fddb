"""Tables that we would misread are refused, with the property that says why."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import FormatError, UnsupportedFeature

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.string())])


def make(path: Path) -> hoodoo.Table:
    table = hoodoo.create_table(
        str(path / "t"), schema=SCHEMA, record_key="id", partition_by="p", table_type="mor"
    )
    table.insert(pa.table([[1], ["x"], ["old"]], schema=SCHEMA))
    return table


def reopen_with(table: hoodoo.Table, line: str, *, without: str | None = None) -> hoodoo.Table:
    path = Path(table.uri.removeprefix("file://")) / ".hoodie" / "hoodie.properties"
    lines = [old for old in path.read_text().splitlines() if not without or without not in old]
    path.write_text("\n".join([*lines, line, ""]))
    return hoodoo.open_table(table.uri)


MERGES = ["hoodie.table.partial.update.mode=IGNORE_DEFAULTS", "hoodie.record.merge.mode=CUSTOM"]


@pytest.mark.parametrize("line", MERGES)
def test_custom_merge_mode_is_refused(tmp_path: Path, line: str) -> None:
    table = make(tmp_path)
    table.upsert(pa.table([[1], ["x"], [None]], schema=SCHEMA))
    table = reopen_with(table, line, without=line.partition("=")[0] + "=")
    with pytest.raises(UnsupportedFeature, match="merge"):
        table.to_arrow()
    assert table.to_arrow(mode="read_optimized")["v"].to_pylist() == ["old"]
    with pytest.raises(UnsupportedFeature, match="merge"):
        table.upsert(pa.table([[1], ["x"], ["new"]], schema=SCHEMA))


@pytest.mark.parametrize(
    "line",
    [
        "hoodie.datasource.write.drop.partition.columns=true",
        "hoodie.bootstrap.base.path=file:///elsewhere",
        "hoodie.table.base.file.format=ORC",
    ],
)
def test_files_that_are_not_what_we_read(tmp_path: Path, line: str) -> None:
    table = reopen_with(make(tmp_path), line, without=line.partition("=")[0])
    with pytest.raises(UnsupportedFeature):
        table.to_arrow()


def test_properties_that_lost_their_partition_fields(tmp_path: Path) -> None:
    table = reopen_with(make(tmp_path), "", without="hoodie.table.partition.fields")
    with pytest.raises(FormatError, match="not partitioned"):
        table.to_arrow()


def test_properties_that_point_to_another_timeline(tmp_path: Path) -> None:
    line = "hoodie.timeline.path=timelime"
    table = reopen_with(make(tmp_path), line, without="hoodie.timeline.path")
    with pytest.raises(FormatError, match="timelime"):
        table.to_arrow()
    with pytest.raises(FormatError, match="timelime"):
        table.to_arrow(as_of="2026-01-01")
