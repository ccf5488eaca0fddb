"""Tables that Apache Hudi made, with indexes of its choice: we write on, in turns with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from compat.metadata_beside import assert_indexes_are_current, assert_no_complaints
from compat.peer_client import Peer
from compat.peer_rows import trips
from compat.peer_tables import HIVE, KEY, METADATA, MOR, ORDERING, PARTITION, TYPE
from compat.same_rows import assert_same_rows
from compat.shared_indexed_table import RECORDS, STATS, Both

import hoodoo
from hoodoo.errors import UnsupportedFeature
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.table.ref import open_ref

Unpack = Callable[[str], Path]
REFUSED = r"hoodoo does not write yet \(.*{}.*hoodoo index drop"


@pytest.mark.parametrize(
    ("kind", "partition"),
    [
        ("mor", ""),
        pytest.param("cow", "", marks=pytest.mark.nightly),
        pytest.param("cow", "city", marks=pytest.mark.nightly),
        pytest.param("mor", "city", marks=pytest.mark.nightly),
    ],
)
def test_a_table_of_hudi_s_defaults_is_written_on(
    hudi: Peer, tmp_path: Path, kind: str, partition: str
) -> None:
    settings = {"hoodie.table.name": "trips", KEY: "id", PARTITION: partition, ORDERING: "ts"}
    settings |= MOR if kind == "mor" else {}
    both = Both(hudi, tmp_path / "trips", kind, {}, {k: v for k, v in settings.items() if v})
    both.make("hudi")
    indexes = set(open_ref(str(both.place)).properties.metadata_partitions)
    assert indexes >= {"files", "column_stats"}
    both.table.upsert(trips("a sf 2 11", "f rome 1 60"))
    both.check_ours("a 2 11", "b 1 20", "c 1 30", "d 1 40", "e 1 50", "f 1 60")
    both.theirs("b sf 2 21", "g rome 1 70")
    both.table.delete(trips("c la 9 0"))
    assert compact_metadata_table(open_ref(str(both.place)), at_least=1)
    both.check("a 2 11", "b 2 21", "d 1 40", "e 1 50", "f 1 60", "g 1 70")
    both.theirs("g rome 2 71", "h oslo 1 80")
    both.table.upsert(trips("h oslo 2 81"))
    both.check("a 2 11", "b 2 21", "d 1 40", "e 1 50", "f 1 60", "g 2 71", "h 2 81")
    assert set(open_ref(str(both.place)).properties.metadata_partitions) == indexes


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("cow/v9_txns_simple_overwrite", marks=pytest.mark.nightly),
        "mor-avro/v9_txns_simple_overwrite",
    ],
)
def test_a_table_of_hudi_1_1_with_a_record_index_is_written_on(
    hudi: Peer, unpack: Unpack, tmp_path: Path, table: str
) -> None:
    place = Path(shutil.copytree(unpack(table), tmp_path / "table"))
    opened = hoodoo.open_table(str(place))
    before = opened.to_arrow()
    plain = before.select(without_meta_fields(before.schema).names).sort_by("txn_id")
    settings = settings_of(place)

    assert plain.num_rows >= 3
    opened.upsert(changed(plain.slice(0, 2), "ours"))
    opened.upsert(changed(plain.slice(0, 1), "new", txn_id="new-1"))
    hudi.write(place, changed(plain.slice(1, 2), "theirs"), settings)
    opened.delete(["new-1"])
    hudi.write(place, changed(plain.slice(0, 1), "newer", txn_id="new-2"), settings)
    opened.upsert(changed(plain.slice(0, 1), "newest", txn_id="new-2"))

    rows = opened.to_arrow()
    assert_same_rows(rows, hudi.read(place, {METADATA: "true"}))
    names = dict(zip(plain["txn_id"].to_pylist(), plain["merchant_name"].to_pylist(), strict=True))
    keys = list(names)
    names |= {keys[0]: "ours", keys[1]: "theirs", keys[2]: "theirs"}
    names["new-2"] = "newest"
    found = zip(rows["txn_id"].to_pylist(), rows["merchant_name"].to_pylist(), strict=True)
    assert sorted(found) == sorted(names.items())
    assert RECORD_INDEX in open_ref(str(place)).properties.metadata_partitions
    assert_indexes_are_current(place)
    assert_no_complaints(hudi, place)


def changed(rows: pa.Table, merchant: str, *, txn_id: str | None = None) -> pa.Table:
    """These rows, later, with another merchant, and maybe another key."""
    values = {"merchant_name": merchant, **({"txn_id": txn_id} if txn_id else {})}
    for name, value in values.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, rows.schema.field(name), pa.array([value] * rows.num_rows))
    return rows


def settings_of(place: Path) -> dict[str, str]:
    """What a writer of Hudi's needs to keep the indexes that a table has."""
    ref = open_ref(str(place))
    raw = ref.properties.raw
    settings = {
        "hoodie.table.name": raw["hoodie.table.name"],
        KEY: raw["hoodie.table.recordkey.fields"],
        ORDERING: raw["hoodie.table.ordering.fields"],
        METADATA: "true",
        STATS: "true",
        RECORDS: "true",
        HIVE: raw.get(HIVE, "false"),
        TYPE: raw["hoodie.table.type"],
    }
    if fields := raw.get("hoodie.table.partition.fields"):
        settings[PARTITION] = fields
    return settings


@pytest.mark.parametrize("table", ["cow/v9_txns_simple_meta", "mor-avro/v9_txns_nonpart_meta"])
def test_a_secondary_index_is_refused_by_name(unpack: Unpack, tmp_path: Path, table: str) -> None:
    place = Path(shutil.copytree(unpack(table), tmp_path / "table"))
    opened = hoodoo.open_table(str(place))
    before = opened.to_arrow()
    with pytest.raises(UnsupportedFeature, match=REFUSED.format("secondary_index_merchant_idx, ")):
        opened.delete([before["txn_id"][0].as_py()])
    assert_same_rows(hoodoo.open_table(str(place)).to_arrow(), before)


@pytest.mark.nightly
def test_indexes_that_hudi_makes_by_sql_are_refused_by_name(hudi: Peer, tmp_path: Path) -> None:
    place = tmp_path / "trips"
    alone = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    hudi.sql(
        f"set hoodie.write.lock.provider={alone}",
        "create table refused (id string, ts bigint, fare double) using hudi "
        f"location '{place}' tblproperties (type = 'cow', primaryKey = 'id', orderingFields = 'ts',"
        " 'hoodie.metadata.record.index.enable' = 'true')",
        "insert into refused values ('a', 1, 10)",
        "create index by_day on refused using column_stats(ts) "
        "options(expr = 'from_unixtime', format = 'yyyy-MM-dd')",
    )
    with pytest.raises(UnsupportedFeature, match=REFUSED.format("expr_index_by_day")):
        hoodoo.open_table(str(place)).delete(["a"])
    hudi.sql("drop index by_day on refused", "create index by_fare on refused (fare)")
    with pytest.raises(UnsupportedFeature, match=REFUSED.format("secondary_index_by_fare")):
        hoodoo.open_table(str(place)).delete(["a"])
    hudi.sql("drop table refused", "reset hoodie.write.lock.provider")
