"""What Spark itself tells of a run: the ends of tasks, out of its event log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path


def settings(place: Path) -> Mapping[str, str]:
    """Let a session keep an event log below `place`, which exists."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": place.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def task_ends(place: Path, stage: int) -> Counter[str]:
    """How the tasks of a stage ended: `Success`, `FetchFailed`, `TaskKilled`, ..."""
    ends: Counter[str] = Counter()
    for log in place.iterdir():
        for line in log.read_bytes().rpartition(b"\n")[0].splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] == stage:
                ends[event["Task End Reason"]["Reason"]] += 1
    return ends
