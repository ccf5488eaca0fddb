"""Pending writes that nobody gives way to: without a heartbeat, or with no way to commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.paused_writes import PausedWrite, pause_write

import hoodoo
from hoodoo.errors import EarlyConflict
from hoodoo.model import paths

BLIND = {"hoodie.write.concurrency.early.conflict.detection.enable": "false"}


def row(key: int, value: int) -> pa.Table:
    return pa.table({"key": [key], "value": [value]})


@pytest.fixture
def older(tmp_path: Path) -> Iterator[PausedWrite]:
    """An upsert in progress, into the one file group of a table."""
    table = hoodoo.create_table(str(tmp_path), schema=row(1, 1).schema, record_key="key")
    table.insert(pa.concat_tables([row(1, 1), row(2, 1)]))
    with pause_write(tmp_path, lambda table: table.upsert(row(1, 2))) as write:
        with pytest.raises(EarlyConflict):
            table.upsert(row(2, 2))
        yield write


def test_write_without_heartbeat_causes_no_early_conflict(
    older: PausedWrite, tmp_path: Path
) -> None:
    (tmp_path / paths.heartbeat(older.instant)).unlink()
    hoodoo.open_table(str(tmp_path)).upsert(row(2, 2))


def test_write_that_already_lost_causes_no_early_conflict(
    older: PausedWrite, tmp_path: Path
) -> None:
    hoodoo.open_table(str(tmp_path), BLIND).upsert(row(2, 2))
    hoodoo.open_table(str(tmp_path)).upsert(row(2, 3))


def test_write_still_conflicts_after_commits_to_other_file_groups(
    older: PausedWrite, tmp_path: Path
) -> None:
    """New rows in a file group of their own take nothing from it."""
    new_groups = {"hoodie.parquet.small.file.limit": "0"}
    hoodoo.open_table(str(tmp_path), new_groups).insert(row(3, 1))
    with pytest.raises(EarlyConflict) as told:
        hoodoo.open_table(str(tmp_path)).upsert(row(2, 2))
    assert told.value.conflicting_instants == (older.instant,)
    older.go_on()
