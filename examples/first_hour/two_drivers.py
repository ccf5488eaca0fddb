"""Two Spark drivers upsert into one table at the same time, the same partition among others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from checks import check, check_equal, rows_by_key, say
from command_line import run_hoodoo
from driver_process import Driver

import hoodoo

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("writer", pa.string()), ("round", pa.int64())]
)


def run(place: Path) -> None:
    """All rows that a driver was told of are there; nothing is wrong afterwards."""
    table = hoodoo.create_table(
        place / "shared", schema=SCHEMA, record_key="id", partition_by="part"
    )
    table.insert([{"id": "counter", "part": "shared", "writer": "nobody", "round": 0}])
    names = ("left", "right")
    drivers = [
        Driver("upsert_driver.py", place / f"{name}.log", str(place / "shared"), name)
        for name in names
    ]
    with drivers[0], drivers[1], ThreadPoolExecutor(2) as listeners:
        for driver in drivers:
            driver.wait_for("ready")
        for driver in drivers:
            driver.go()
        told = list(listeners.map(lambda driver: list(driver.events()), drivers))
    acknowledged = [event for events in told for event in events]
    overlaps = count_overlaps(told)
    rows = rows_by_key(table.to_pandas().to_dict("records"), "id")
    missing = {key for event in acknowledged for key in event["ids"]} - set(rows)
    check(not missing, f"acknowledged rows that are not there: {sorted(missing)}")
    check_equal("number of rows", len(rows), 1 + 2 * 2 * len(told[0]))
    last = max(acknowledged, key=lambda event: event["completed"])
    check_equal("who wrote the shared row last", [rows["counter"]["id"]], last["ids"][2:])
    check_equal("the last writer", rows["counter"]["writer"], last["ids"][0].split("-")[0])
    say(f"{len(acknowledged)} upserts acknowledged, {overlaps} times the turn changed; all there")

    check_equal("what the doctor finds", table.doctor(), [])
    for command in ("doctor", "timeline", "conflicts", "plans"):
        answer = run_hoodoo(command, str(place / "shared"))
        check_equal(f"exit code of hoodoo {command}", answer.returncode, 0)
        check(bool(answer.stdout.strip()), f"hoodoo {command} says nothing")
    say("hoodoo doctor, timeline, conflicts and plans answer, and nothing is wrong")


def count_overlaps(told: list[list[dict[str, Any]]]) -> int:
    """How often the other driver was next to commit."""
    turns = sorted((event["completed"], who) for who, events in enumerate(told) for event in events)
    return sum(one[1] != next_[1] for one, next_ in pairwise(turns))
