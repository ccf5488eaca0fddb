"""A disk that is full for a while: once there is room again, nothing stays blocked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.hostile import new_table, rows

import hoodoo
from hoodoo.errors import EarlyConflict, LockTimeout, StorageError
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

WRITES = {"create", "put", "replace", "open_write"}
SHORT_WAIT = {"hoodie.write.lock.wait_time_ms": "1000"}
LOCK = ".hoodie/.locks/table_lock.json"


class FillingDisk:
    """No write lands from the first one on whose path has a part; deletes do."""

    def __init__(self, part: str) -> None:
        self._part = part
        self.is_full = False

    def __call__(self, verb: str, path: str) -> None:
        if verb in WRITES:
            self.is_full |= self._part in path
            if self.is_full:
                raise StorageError(path, "No space left on device")


def upsert_until_full(place: Path, part: str) -> None:
    """A write that the disk fails, and everything that it tries afterwards."""
    ref = open_ref(str(place), SHORT_WAIT)
    disk = FillingDisk(part)
    storage = TracedStorage(ref.env.storage, before=disk)
    table = hoodoo.Table(replace(ref, env=replace(ref.env, storage=storage)))
    with pytest.raises(StorageError, match="No space left"):
        table.upsert(rows(3, ts=2))
    assert disk.is_full


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table whose disk was full when a write recorded its files, and is not any more."""
    place = tmp_path / "table"
    new_table(place)
    upsert_until_full(place, ".hoodie/metadata/column_stats/")
    assert hoodoo.open_table(str(place)).count() == 3
    return place


@pytest.mark.xfail(
    strict=True,
    raises=LockTimeout,
    reason="27.6: a write that a full disk failed keeps the table's lock until its lease ends",
)
def test_the_lock_is_free_once_the_disk_has_room_again(place: Path) -> None:
    hoodoo.open_table(str(place), SHORT_WAIT).upsert(rows(1, "la", start=50))
    assert hoodoo.open_table(str(place)).count() == 4


@pytest.mark.xfail(
    strict=True,
    raises=EarlyConflict,
    reason="27.6: a write that a full disk failed counts as alive by its heartbeat, and blocks",
)
def test_the_same_rows_can_be_written_once_the_disk_has_room_again(place: Path) -> None:
    (place / LOCK).unlink()  # as if its lease had ended
    hoodoo.open_table(str(place), SHORT_WAIT).upsert(rows(3, ts=3))
    assert hoodoo.open_table(str(place)).to_arrow()["ts"].to_pylist() == [3, 3, 3]
