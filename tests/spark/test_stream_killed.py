"""A driver that dies between commit and checkpoint, again and again: no row twice, none lost."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes import Children

import hoodoo
from hoodoo.model.commit import BATCHES_KEY
from hoodoo.table.timeline import read_commit

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
DRIVER = Path(__file__).with_name("stream_driver.py")
ROWS = 10


@pytest.mark.parametrize(
    ("operation", "table_type", "kills"),
    [
        ("insert", "cow", 3),
        pytest.param("insert", "cow", 20, marks=pytest.mark.nightly),
        pytest.param("bulk_insert", "mor", 5, marks=pytest.mark.nightly),
    ],
)
def test_each_batch_is_there_once_after_kills_between_commit_and_checkpoint(
    tmp_path: Path, operation: str, table_type: str, kills: int
) -> None:
    files = kills + 1
    (tmp_path / "in").mkdir()
    for number in range(files):
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        rows = pa.table({"id": ids, "v": [number] * ROWS}, schema=SCHEMA)
        pq.write_table(rows, tmp_path / f"in/{number:03}.parquet")
    table = hoodoo.create_table(
        tmp_path / "t", schema=SCHEMA, record_key="id", table_type=table_type
    )
    spec = {"place": str(tmp_path), "operation": operation}
    with Children(tmp_path) as children:
        for number in range(kills):
            driver = children.start(DRIVER, {**spec, "kills": True}, deadline_s=300)
            assert driver.end(within_s=300) == -signal.SIGKILL, driver.told()
            words = driver.journal.words()
            # The batch of the driver before it comes again, and is not written again.
            again = ["batch", "skipped"] if number else []
            assert words == [*again, "batch", "committed"], driver.told()
        last = children.start(DRIVER, {**spec, "kills": False}, deadline_s=300)
        assert last.end(within_s=300) == 0, last.told()
        assert last.journal.words() == ["batch", "skipped", "batch", "committed", "done"]
    ids = sorted(table.to_arrow(columns=["id"])["id"].to_pylist())
    assert ids == list(range(files * ROWS))
    assert _newest_batches(table) == [[str(number)] for number in range(files)]


def _newest_batches(table: hoodoo.Table) -> list[list[str]]:
    """What each commit says of batches, in the order of completion."""
    ref = table._ref
    commits = sorted(
        ref.load_timeline().commits, key=lambda instant: instant.completion_or_requested_time
    )
    said = [read_commit(ref.env, ref.properties.timeline_paths, instant) for instant in commits]
    return [list(json.loads(each.extra_metadata[BATCHES_KEY]).values()) for each in said]
