"""Upgraded tables beside Apache Hudi: it reads them as before, writes on, and upgrades alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from compat.peer_client import Peer
from compat.same_rows import assert_same_rows

import hoodoo
from hoodoo.format import properties

OPTIONS = {
    "hoodie.table.name": "made",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.embed.timeline.server": "false",
}
SMALL = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "2",
    "hoodie.commits.archival.batch": "1",
}
STATED = {
    # docs/format/versions.md says why.
    "hoodie.compaction.record.merger.strategy",
    "hoodie.table.keygenerator.class",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
}


def rows(v: int, *keys: str) -> pa.Table:
    numbers = pa.array([v] * len(keys), pa.int64())
    return pa.table({"id": list(keys), "part": ["p"] * len(keys), "ts": numbers, "v": numbers})


def properties_of(place: Path) -> dict[str, str]:
    return properties.parse((place / ".hoodie/hoodie.properties").read_bytes())


def make(hudi: Peer, place: Path, version: str, table_type: str) -> dict[str, str]:
    """A table of an old version with logs, or with an archive."""
    options = {
        **OPTIONS,
        **SMALL,
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": table_type,
    }
    commits = 3 if table_type == "MERGE_ON_READ" else 6
    for v in range(commits):
        hudi.write(place, rows(v, "a", "b", f"c{v}"), options, "append" if v else "overwrite")
    return options


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("version", "table_type"),
    [("6", "MERGE_ON_READ"), ("6", "COPY_ON_WRITE"), ("8", "MERGE_ON_READ")],
)
def test_turn_by_turn_on_an_upgraded_table(
    hudi: Peer, tmp_path: Path, version: str, table_type: str
) -> None:
    place = tmp_path / "table"
    make(hudi, place, version, table_type)
    theirs = Path(shutil.copytree(place, tmp_path / "theirs"))
    before = hudi.read(place)
    table = hoodoo.open_table(place, {"hoodie.metadata.enable": False})
    table.upgrade()
    assert_same_rows(hudi.read(place), before)
    assert_same_rows(table.to_arrow(), before)

    name = f"u{version}_{table_type[0].lower()}"
    hudi.sql(
        f"create table {name} using hudi location '{theirs}'",
        f"call upgrade_table(table => '{name}', to_version => 'NINE')",
        f"drop table {name}",
    )
    mine, other = properties_of(place), properties_of(theirs)
    assert {key: mine[key] for key in mine if key not in STATED} == {
        key: other[key] for key in other if key not in STATED
    }

    table.upsert(rows(20, "a", "new"))
    assert_same_rows(hudi.read(place), table.to_arrow())
    beside = {**OPTIONS, "hoodie.datasource.write.table.type": table_type}
    hudi.write(place, rows(30, "b", "newer"), {**beside, "hoodie.metadata.enable": "false"})
    assert properties_of(place)["hoodie.table.version"] == "9"
    assert_same_rows(hudi.read(place), table.to_arrow())
    table.delete(["c0"])
    assert_same_rows(hudi.read(place), table.to_arrow())


Unpack = Callable[[str], Path]


def test_log_files_of_version_6_are_read_by_hudi(
    hudi: Peer, unpack: Unpack, tmp_path: Path
) -> None:
    place = Path(
        shutil.copytree(unpack("mor-parquet/v6_nonpartitioned_rollback"), tmp_path / "table")
    )
    before = hudi.read(place)
    hoodoo.open_table(place).upgrade()
    assert_same_rows(hudi.read(place), before)
