"""What we write into log files, read by hudi-rs (the `hudi` wheel)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo.format.log import (
    BlockType,
    avro_block,
    decode_data,
    decode_deletes,
    delete_block,
    deletes_of,
    encode_blocks,
    parquet_block,
    read_blocks,
)
from hoodoo.format.log.ordering import wrap

TABLE = "mor-avro/v9_txns_simple_nometa"


AS_OF = "20260307135835748"  # before compaction, clustering and overwrites: the logs are merged


def read_by_peer(path: Path) -> list[dict[str, object]]:
    hudi = pytest.importorskip("hudi")
    options = hudi.HudiReadOptions().with_as_of_timestamp(AS_OF)
    batches = hudi.HudiTableBuilder.from_base_uri(path.as_uri()).build().read(options)
    rows = pa.Table.from_batches(batches).to_pylist()
    return sorted(rows, key=lambda row: str(row["txn_id"]))


@pytest.fixture
def table_copy(unpack, tmp_path):
    path = tmp_path / "table"
    shutil.copytree(unpack(TABLE), path)
    return path


def rewrite(path: Path, change) -> int:
    """Replaces the blocks of each log file of the table by what `change` makes of them."""
    changed = 0
    for file in path.glob("region=*/.*.log.*"):
        if not file.name.endswith(".crc"):
            blocks = read_blocks(file.read_bytes()).blocks
            file.write_bytes(encode_blocks(new for block in blocks for new in change(block)))
            changed += 1
    for checksum in path.glob("region=*/.*.crc"):
        checksum.unlink()
    return changed


@pytest.mark.parametrize("make", [avro_block, parquet_block])
def test_rows_and_deletes_that_we_encode_are_read_by_hudi_rs(unpack, table_copy, make):
    def change(block):
        if block.type is BlockType.DELETE:
            yield delete_block(decode_deletes(block), instant_time=block.instant_time)
        else:
            rows = decode_data(block)
            yield make(rows, instant_time=block.instant_time, schema_json=block.schema_json)

    expected = read_by_peer(unpack(TABLE))
    assert rewrite(table_copy, change) == 5
    assert read_by_peer(table_copy) == expected
    found = {row["txn_id"]: row["_hoodie_commit_time"] for row in expected}
    assert sorted(found) == [f"TXN-00{n}" for n in (1, 3, 4, 6, 7, 8)]  # 2 and 5 are deleted
    assert found["TXN-001"] == "20260307135830801"  # updated in a log


@pytest.mark.parametrize(("ts", "wins"), [(10**18, True), (0, False)])
def test_the_ordering_value_of_a_delete_is_obeyed_by_hudi_rs(unpack, table_copy, ts, wins):
    """With event time a delete wins if it is not older; Long 0 is a time like any other."""

    def change(block):
        if block.type is not BlockType.DELETE:
            yield block
            return
        deletes = decode_deletes(block)
        ordering = wrap(pa.array([ts] * len(deletes), pa.int64()))
        ours = deletes_of(deletes["record_key"], deletes["partition_path"], ordering)
        yield delete_block(ours, instant_time=block.instant_time)

    before = {row["txn_id"] for row in read_by_peer(unpack(TABLE))}
    rewrite(table_copy, change)
    after = {row["txn_id"] for row in read_by_peer(table_copy)}
    assert after - before == (set() if wins else {"TXN-002", "TXN-005"})
