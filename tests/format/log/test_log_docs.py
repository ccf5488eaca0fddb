"""The worked example of docs/format/log-files.md is what it says."""

from __future__ import annotations

import re
from pathlib import Path

from hoodoo.format.log import (
    BlockType,
    HeaderKey,
    decode_deletes,
    encode_blocks,
    read_blocks,
    rollback_target,
    scan_blocks,
)
from hoodoo.format.log.ordering import ORDERING_TYPES, K, is_special, values_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "format" / "log-files.md"


def listing() -> bytes:
    (text,) = re.findall(r"^```hex log-block\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    return bytes.fromhex("".join(line.split(";")[0] for line in text.splitlines()))


def test_the_worked_example_decodes_to_what_the_page_says():
    data = listing()
    found = read_blocks(data)
    assert not found.corrupt
    assert encode_blocks(found.blocks) == data
    delete, command = found.blocks
    assert (delete.type, command.type) == (BlockType.DELETE, BlockType.COMMAND)
    assert delete.instant_time == "20260307162606034"
    deletes = decode_deletes(delete)
    assert deletes["record_key"].to_pylist() == ["TXN-002", "TXN-005"]
    assert deletes["partition_path"].to_pylist() == ["region=us", "region=us"]
    assert is_special(deletes["ordering"]).to_pylist() == [True, False]
    assert values_of(deletes["ordering"], K.LONG).to_pylist() == [None, 1700000000000]
    assert rollback_target(command) == delete.instant_time
    assert scan_blocks([delete]).blocks == (delete,)
    assert scan_blocks(found.blocks).blocks == ()


def test_the_tables_of_the_page_name_every_ordinal():
    page = PAGE.read_text("utf-8")
    for key in HeaderKey:
        assert f"\n| {int(key)} | {key.name}:" in page
    for kind, type_ in ORDERING_TYPES.items():
        row = re.search(rf"^\| {int(kind)} \|.*\| (.*) \|$", page.split("ordering value:")[1], re.M)
        assert row is not None
        assert row[1] == (
            "list of a union"
            if kind is K.ARRAY
            else str(type_).replace("[day]", "").replace("tz=", "")
        )
