"""Faults that show only beside Apache Hudi itself; each test is of the behaviour that is right."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from compat.metadata_beside import assert_indexes_are_current
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.peer_tables import FILES_INDEX, MOR
from compat.shared_table import ALONE, OUR_LOCK, TOGETHER, new_table

import hoodoo
from hoodoo.errors import FormatError, UnsupportedFeature

EACH_KIND = pytest.mark.parametrize("kind", ["cow", "mor"])
REFERENCE = "struct<external_path:string,offset:bigint,length:bigint,managed:boolean>"
BLOB = (
    "named_struct('type', 'INLINE', 'data', cast('abc' as binary), "
    f"'reference', cast(null as {REFERENCE}))"
)
VECTOR = "array(1.0f, 2.0f, 3.0f)"
CONSISTENT = ALONE | {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "8",
}

RECORD_INDEX = FILES_INDEX | {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "6",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}
OUR_INDEX = RECORD_INDEX | {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    **OUR_LOCK,
}


def make_typed_table(hudi: Peer, place: Path, kind: str, column: str, value: str) -> str:
    """Hudi makes a table with a column of a type of its own, and two rows; the table's name."""
    name = f"faults_{column.partition('(')[0]}_{kind}"
    hudi.sql(
        "SET hoodie.metadata.enable=false",
        f"DROP TABLE IF EXISTS {name}",
        f"CREATE TABLE {name} (id string, ts long, c {column}) USING hudi TBLPROPERTIES "
        f"(type='{kind}', primaryKey='id', preCombineField='ts') LOCATION '{place}'",
        f"INSERT INTO {name} SELECT 'a', 1L, {value}",
        f"INSERT INTO {name} SELECT 'b', 1L, {value}",
    )
    return name


def update_by_hudi(hudi: Peer, name: str) -> pa.Table:
    """Hudi changes the row that is left, and reads it."""
    rows = hudi.sql(
        f"REFRESH TABLE {name}",
        f"UPDATE {name} SET ts = 3 WHERE id = 'a'",
        f"SELECT id, ts, c FROM {name}",
        rows=True,
    )
    assert rows is not None
    return rows


@EACH_KIND
@pytest.mark.xfail(
    strict=True,
    raises=PeerError,
    reason="27.7: a delete of ours turns a VECTOR column into bytes for Apache Hudi",
)
def test_hudi_updates_a_vector_after_a_delete_of_ours(
    hudi: Peer, tmp_path: Path, kind: str
) -> None:
    name = make_typed_table(hudi, tmp_path / "t", kind, "vector(3)", VECTOR)
    hoodoo.open_table(str(tmp_path / "t")).delete(["b"])
    assert update_by_hudi(hudi, name).to_pylist() == [{"id": "a", "ts": 3, "c": [1.0, 2.0, 3.0]}]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="27.7: a VECTOR column of Apache Hudi is read as bytes",
)
def test_a_vector_is_read_as_floats(hudi: Peer, tmp_path: Path) -> None:
    make_typed_table(hudi, tmp_path / "t", "cow", "vector(3)", VECTOR)
    rows = hoodoo.open_table(str(tmp_path / "t")).to_arrow(columns=["c"])
    assert rows["c"].to_pylist() == [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]


@pytest.mark.xfail(
    strict=True,
    raises=PeerError,
    reason="27.7: after a delete of ours Apache Hudi no longer takes a BLOB column for one",
)
def test_hudi_updates_a_blob_after_a_delete_of_ours(hudi: Peer, tmp_path: Path) -> None:
    name = make_typed_table(hudi, tmp_path / "t", "cow", "blob", BLOB)
    hoodoo.open_table(str(tmp_path / "t")).delete(["b"])
    rows = update_by_hudi(hudi, name).to_pylist()
    assert [(row["id"], row["ts"], row["c"]["data"]) for row in rows] == [("a", 3, b"abc")]


@pytest.mark.xfail(
    strict=True,
    raises=pytest.fail.Exception,
    reason="27.8: a table with consistent hashing is written to as if it had no index",
)
def test_a_table_with_consistent_hashing_is_refused(hudi: Peer, tmp_path: Path) -> None:
    hudi.write(tmp_path / "t", trips("a sf 1 1", "b sf 1 1", "c la 1 1"), CONSISTENT | MOR)
    with pytest.raises(UnsupportedFeature):
        hoodoo.open_table(str(tmp_path / "t")).upsert(trips("a sf 2 1", "d sf 2 1"))


@pytest.mark.xfail(
    strict=True,
    raises=FormatError,
    reason="27.9: an index that Hudi rebuilt is taken for damaged once its instant is archived",
)
def test_an_index_that_hudi_rebuilt_and_archived_is_trusted(hudi: Peer, tmp_path: Path) -> None:
    place = tmp_path / "t"
    new_table(place, "mor", OUR_INDEX).insert(trips(*(f"k{n} sf 1 {n}" for n in range(30))))
    table = hoodoo.open_table(str(place), OUR_INDEX)
    for number in range(34):
        table.upsert(
            trips(*(f"k{n} sf {2 + number} {n}" for n in range(number % 20, number % 20 + 6)))
        )
    table.drop_index("record_index")
    hudi.write(place, trips("k1 sf 90 1", "k50 la 90 1"), TOGETHER | RECORD_INDEX | MOR)
    timeline = place / ".hoodie/metadata/.hoodie/timeline"
    assert not list(timeline.glob("00000000000000001_*")), "nothing is archived yet"
    assert_indexes_are_current(place)
    hoodoo.open_table(str(place), OUR_INDEX).upsert(trips("k1 sf 91 2", "k60 la 91 2"))
    assert_indexes_are_current(place)
    assert hoodoo.open_table(str(place)).count() == 32
