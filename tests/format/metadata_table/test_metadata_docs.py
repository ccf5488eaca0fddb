"""The worked example and the tables of docs/format/metadata-table.md are what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from hoodoo.format.metadata_table.keys import file_group_numbers, java_hashes
from hoodoo.format.metadata_table.record_index import decode_record_index, encode_record_index
from hoodoo.format.metadata_table.schema import RECORD, RecordKind
from hoodoo.model.metadata_table import FILE_GROUPS, file_group_id

PAGE = Path(__file__).resolve().parents[3] / "docs" / "format" / "metadata-table.md"


def test_the_worked_example_decodes_to_what_the_page_says() -> None:
    page = PAGE.read_text("utf-8")
    (text,) = re.findall(r"^```hex record-index\n(.*?)^```", page, re.S | re.M)
    value = bytes.fromhex("".join(line.split(";")[0] for line in text.splitlines()))
    table = decode_record_index(pa.array(["TXN-006"]), pa.array([value]))
    (row,) = table.to_pylist()
    assert f"The file id is `{row['file_id']}`" in page
    assert f"instantTime {row['instant_ms']}" in page
    assert encode_record_index(table).to_pylist() == [value]
    keys = pa.array(["TXN-006"])
    said = re.search(
        r"key is (-?\d+): of ten file groups, it is in number (\d+)", " ".join(page.split())
    )
    assert said is not None
    assert [int(one) for one in said.groups()] == [
        java_hashes(keys)[0],
        file_group_numbers(keys, 10)[0],
    ]


def test_the_tables_of_the_page_name_every_field_and_file_group() -> None:
    page = PAGE.read_text("utf-8")
    for field in list(RECORD.arrow)[5:]:
        assert f"\n| `{field.name}` |" in page
    for kind in RecordKind:
        assert f"{int(kind)} " in page.split("\n| `type` |")[1].split("\n")[0]
    for partition, count in FILE_GROUPS.items():
        pattern = file_group_id(partition, 0).replace("0000", "%04d")
        assert f"`{pattern}`, {count}" in page or partition == "files"
