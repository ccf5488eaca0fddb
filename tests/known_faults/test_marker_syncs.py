"""What a write forces to disk, on local storage."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

PARTITIONS = 10


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="28.6: every marker is forced to disk, although a power loss that takes it takes its "
    "write too",
)
def test_marker_is_not_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by="part"
    )
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    table.insert([{"id": key, "part": f"p{key}"} for key in range(PARTITIONS)])
    assert synced
    assert [path for path in synced if "/.hoodie/.temp" in path] == []
