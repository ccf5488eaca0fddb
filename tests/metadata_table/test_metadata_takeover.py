"""Tables of Apache Hudi 1.1 with a metadata table of its own: hoodoo writes on."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from support.fixtures import FIXTURES
from support.record_indexed import RECORD_INDEXED, indexed_keys
from support.wheel import wheel_rows

import hoodoo
from hoodoo.format.schema import without_meta_fields
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.table.ref import open_ref
from hoodoo_testing.simulator.checks.metadata_table import check_current_files, check_record_index

KNOWN = {"files", "column_stats", "partition_stats", "record_index"}
TABLES = [
    "cow/v9_txns_simple_overwrite",
    "mor-avro/v9_nonpartitioned_rollback",
    "mor-avro/v9_txns_simple_overwrite",
    *RECORD_INDEXED,
]
KEY = "hoodie.table.metadata.partitions="


def unpack(table: str, place: Path) -> Path:
    """A copy of a fixture table, without the indexes that hoodoo does not write."""
    with zipfile.ZipFile(FIXTURES / "tables" / f"{table}.zip") as archive:
        archive.extractall(place)
    root = place / table.split("/")[1]
    properties = root / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    for at, line in enumerate(lines):
        if line.startswith(KEY):
            kept = [name for name in line.removeprefix(KEY).split(",") if name in KNOWN]
            lines[at] = KEY + ",".join(kept)
    properties.write_text("\n".join(lines) + "\n")
    return root


def keys(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return sorted((str(row["txn_id"]), str(row["merchant_name"])) for row in rows)


def check(root: Path, expected: pa.Table) -> None:
    for options in ({}, {"hoodie.metadata.enable": False}):
        found = hoodoo.open_table(str(root), options).to_arrow()
        assert keys(found.to_pylist()) == keys(expected.to_pylist())
    assert keys(wheel_rows(root)) == keys(expected.to_pylist())
    storage = open_ref(str(root)).env.storage
    check_current_files(storage)
    if root.name != "v9_nonpartitioned_rollback":  # which has a key twice
        check_record_index(storage)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_hudi_metadata_table_stays_correct_after_our_writes(tmp_path: Path, table: str) -> None:
    root = unpack(table, tmp_path)
    options = {"hoodie.metadata.compact.max.delta.commits": 1000}
    opened = hoodoo.open_table(str(root), options)
    before = opened.to_arrow()
    names = without_meta_fields(before.schema).names
    first = before.select(names).slice(0, 2)
    place = names.index("merchant_name")
    changed = first.set_column(place, "merchant_name", pa.array(["ours", "ours"]))
    opened.upsert(changed)
    rest = before.select(names).slice(2)
    check(root, pa.concat_tables([changed, rest]))
    assert compact_metadata_table(open_ref(str(root)), at_least=1)
    check(root, pa.concat_tables([changed, rest]))
    opened.delete(changed.slice(0, 1))
    check(root, pa.concat_tables([changed.slice(1), rest]))
    again = changed.slice(0, 1)
    opened.upsert(again)
    check(root, pa.concat_tables([changed, rest]))
    if table in RECORD_INDEXED:
        assert len(indexed_keys(opened)) == before.num_rows
