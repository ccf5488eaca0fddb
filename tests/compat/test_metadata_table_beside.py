"""Tables with a metadata table, written by us and by Apache Hudi in turns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from peer_client import Peer
from peer_rows import FIRST, trips
from peer_tables import METADATA
from same_rows import assert_same_rows

import hoodoo

STATS = "hoodie.metadata.index.column.stats.enable"
THEIRS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.embed.timeline.server": "false",
    METADATA: "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
}
SKIPPING = {METADATA: "true", "hoodie.enable.data.skipping": "true"}


def check(hudi: Peer, path: Path, *expected: str) -> None:
    """Both read these rows, by the metadata table and by directories; it lists what is there."""
    ours = hoodoo.open_table(str(path)).to_arrow()
    assert_same_rows(hoodoo.open_table(str(path), {METADATA: False}).to_arrow(), ours)
    for options in (SKIPPING, {METADATA: "false"}):
        assert_same_rows(ours, hudi.read(path, options))
    found = zip(*(ours[name].to_pylist() for name in ("id", "ts", "fare")), strict=True)
    assert sorted(f"{key} {ts} {fare:g}" for key, ts, fare in found) == sorted(expected)
    hudi.sql(
        "drop table if exists listed", f"create table listed using hudi location '{path.as_uri()}'"
    )
    complaints = hudi.sql("call validate_metadata_table_files(table => 'listed')", rows=True)
    assert isinstance(complaints, pa.Table)
    assert complaints.num_rows == 0, complaints.to_pylist()


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("stats", [False, True], ids=["files", "statistics"])
def test_writes_in_turns(hudi: Peer, tmp_path: Path, kind: str, stats: bool) -> None:
    place = tmp_path / "trips"
    options = {METADATA: True, STATS: stats, "hoodie.metadata.compact.max.delta.commits": 4}
    table = hoodoo.create_table(
        str(place),
        schema=trips("a sf 1 1").schema,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options=options,
    )
    theirs = {**THEIRS, STATS: str(stats).lower()}
    table.insert(trips(*FIRST))
    check(hudi, place, "a 1 10", "b 1 20", "c 1 30", "d 1 40", "e 1 50")
    hudi.write(place, trips("a sf 2 11", "f rome 1 60"), theirs)
    check(hudi, place, "a 2 11", "b 1 20", "c 1 30", "d 1 40", "e 1 50", "f 1 60")
    table = hoodoo.open_table(str(place), options)
    table.upsert(trips("b sf 2 21", "g oslo 1 70"))
    table.delete(trips("d la 9 0"))
    check(hudi, place, "a 2 11", "b 2 21", "c 1 30", "e 1 50", "f 1 60", "g 1 70")
    hudi.write(place, trips("g oslo 2 71", "h sf 1 80"), theirs)
    table = hoodoo.open_table(str(place), options)
    table.upsert(trips("h sf 2 81"))
    check(hudi, place, "a 2 11", "b 2 21", "c 1 30", "e 1 50", "f 1 60", "g 2 71", "h 2 81")
    if stats:
        found = hudi.sql("select id from listed where fare > 70 order by id", rows=True)
        assert found is not None
        assert found["id"].to_pylist() == ["g", "h"]
