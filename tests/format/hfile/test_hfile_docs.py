"""The worked example of docs/format/hfile.md is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
from hfile_samples import open_bytes

from hoodoo.format.hfile import HFileCodec, write_hfile

PAGE = Path(__file__).resolve().parents[3] / "docs" / "format" / "hfile.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)


def listing() -> bytes:
    (text,) = blocks("hex hfile")
    parts = [line.split(";")[0] for line in text.splitlines()]
    return b"".join(
        bytes(int(part.split()[1])) if part.startswith("zeros") else bytes.fromhex(part)
        for part in parts
    )


def test_the_worked_example_decodes_to_what_the_page_says():
    reader = open_bytes(listing())
    entries = reader.read_all()
    assert entries.keys.to_pylist() == [b"k1", b"k2"]
    assert entries.values.to_pylist() == [b"v1", b"v2"]
    assert reader.find(pa.array([b"k2"])).values.to_pylist() == [b"v2"]
    assert reader.file_info[b"schema"] == b"{}"
    assert reader.file_info[b"hfile.CREATE_TIME_TS"] == (1700000000000).to_bytes(8, "big")


def test_the_worked_example_is_what_we_write():
    keys, values = pa.array([b"k1", b"k2"]), pa.array([b"v1", b"v2"])
    info = {b"schema": b"{}"}
    data = write_hfile(keys, values, codec=HFileCodec.NONE, info=info, created_ms=1700000000000)
    assert data == listing()


def test_the_example_of_the_page_runs():
    (example,) = blocks("python")
    exec(compile(example, "hfile.md", "exec"), {})
