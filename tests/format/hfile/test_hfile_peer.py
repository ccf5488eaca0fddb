"""HFiles that we write, read by hudi-rs (the `hudi` wheel) as a table's metadata table."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hfile_samples import written_again

from hoodoo.format.hfile import HUDI_1_1, PORTABLE
from hoodoo.format.log import BlockType, encode_blocks, read_blocks

TABLES = ["cow/v9_txns_simple_meta", "mor-avro/v9_txns_nonpart_meta"]


def read_by_peer(path: Path) -> list[dict[str, object]]:
    hudi = pytest.importorskip("hudi")
    builder = hudi.HudiTableBuilder.from_base_uri(path.as_uri())
    table = builder.with_hudi_option("hoodie.metadata.enable", "true").build()
    rows = pa.Table.from_batches(table.read()).to_pylist()
    return sorted(rows, key=lambda row: str(row["txn_id"]))


def metadata_files(path: Path) -> list[Path]:
    files = (path / ".hoodie" / "metadata").glob("*/*")
    return [f for f in files if f.suffix == ".hfile" or (".log." in f.name and f.suffix != ".crc")]


def write_again(path: Path, **options) -> None:
    data = path.read_bytes()
    if path.suffix == ".hfile":
        path.write_bytes(written_again(data, **options))
        return
    blocks = [
        replace(block, content=written_again(bytes(block.content), **options))
        if block.type is BlockType.HFILE_DATA
        else block
        for block in read_blocks(data).blocks
    ]
    path.write_bytes(encode_blocks(blocks))


@pytest.fixture(params=TABLES)
def table_copy(request, unpack, tmp_path):
    path = tmp_path / "table"
    shutil.copytree(unpack(request.param), path)
    return path


@pytest.mark.parametrize("dialect", [PORTABLE, HUDI_1_1])
@pytest.mark.parametrize("block_size", [100, 1 << 16])
def test_hudi_rs_reads_a_metadata_table_that_we_wrote(table_copy, dialect, block_size):
    expected = read_by_peer(table_copy)
    files = metadata_files(table_copy)
    assert files
    for file in files:
        write_again(file, dialect=dialect, block_size=block_size)
    assert read_by_peer(table_copy) == expected


def test_hudi_rs_does_read_them(table_copy):
    for file in metadata_files(table_copy):
        if file.parent.name == "files":
            file.write_bytes(b"no HFile and no log file")
    pytest.importorskip("hudi")
    with pytest.raises(Exception, match=r"(?i)hfile|log|metadata|magic"):
        read_by_peer(table_copy)
