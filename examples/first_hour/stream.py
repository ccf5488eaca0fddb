"""A stream whose driver is killed in the middle of a batch, and started again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
from checks import check, check_equal, rows_by_key, say
from driver_process import Driver

import hoodoo

FILES = 4
ROWS = 50
KILLED_IN_BATCH = 2


def run(place: Path) -> None:
    """Kill the driver, start it again with its checkpoints, and count."""
    clicks = write_files(place / "incoming")
    table = hoodoo.create_table(
        place / "clicks",
        schema='{"type": "record", "name": "click", "fields": ['
        '{"name": "id", "type": "long"}, {"name": "page", "type": ["null", "string"]},'
        '{"name": "seen", "type": "long"}]}',
        record_key="id",
        ordering="seen",  # files of the same moment come in any order
        table_type="mor",
    )
    with Driver("stream_driver.py", place / "first.log", str(place)) as first:
        for told in first.events():
            if told.get("batch") == KILLED_IN_BATCH:
                wait_until_writing(table, KILLED_IN_BATCH)
                first.kill()
                break
    before = table.count()
    check(0 < before < len(clicks), f"the driver was to die half-way, and left {before} rows")
    say(f"the driver was killed in batch {KILLED_IN_BATCH}; the table has {before} rows")

    with Driver("stream_driver.py", place / "second.log", str(place)) as second:
        second.wait_for("done")
        for _ in second.events():
            pass
    got = rows_by_key(table.to_pandas().to_dict("records"), "id")
    check_equal("rows after the restart", got, clicks)
    say(f"started again, it went on: {len(got)} rows, none lost and none twice")

    followed = {}
    batches = sorted((place / "followed").iterdir())
    for batch in batches:
        for row in pq.read_table(batch).to_pylist():
            followed[row["id"]] = row
    check_equal("rows that the follower has", followed, clicks)
    say(f"the follower has the same {len(followed)} rows, of {len(batches)} batches")


def wait_until_writing(table: hoodoo.Table, commits: int) -> None:
    """Look until a write is at work on files, or is committed already."""
    instants = table.timeline()
    while len(instants) <= commits or instants[-1].state == "requested":
        instants = table.timeline()


def write_files(folder: Path) -> dict[int, dict[str, object]]:
    """One file for each batch; each also corrects rows of the file before it. Gives the end."""
    folder.mkdir()
    clicks: dict[int, dict[str, object]] = {}
    for number in range(FILES):
        ids = range(max(0, number * ROWS - 10), (number + 1) * ROWS)
        rows = [{"id": key, "page": f"p{key % 7}", "seen": number} for key in ids]
        clicks |= {row["id"]: row for row in rows}
        text = "\n".join(map(json.dumps, rows))
        (folder / f"{number:03}.json").write_text(text)
    return clicks
