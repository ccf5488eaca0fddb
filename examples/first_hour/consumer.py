"""A consumer that keeps sums by city in step with a table, by its changes alone.

Its state and its position are in one file, which is replaced at once: a consumer that dies goes on
with the window that it had not finished.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orders import Sums

import hoodoo

SIGNS = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}


class Died(Exception):
    """The consumer was killed before it stored its state."""


class Consumer:
    """Sums by city, and how far the table was followed; with a session, changes come by Spark."""

    def __init__(self, table: hoodoo.Table, place: Path, spark: Any = None) -> None:
        self.table = table
        self.place = place
        self.spark = spark
        stored = json.loads(place.read_text()) if place.exists() else {}
        self.since: str = stored.get("since", "earliest")
        self.sums: Sums = {city: tuple(sums) for city, sums in stored.get("sums", {}).items()}

    def follow(self, dies: bool = False) -> int:
        """Take in what changed since the last call; gives the number of change rows."""
        until = max(one.completion_time for one in self.table.timeline() if one.completion_time)
        changes = 0
        for city, kind, change_cents, change_rows in self._sum_changes(until):
            changes += change_rows
            cents, count = self.sums.get(city, (0, 0))
            sign = SIGNS[kind]
            self.sums[city] = (cents + sign * change_cents, count + sign * change_rows)
        self.sums = {city: sums for city, sums in sorted(self.sums.items()) if sums[1]}
        if dies:
            raise Died
        self.since = until
        new = self.place.with_suffix(".new")
        new.write_text(json.dumps({"since": self.since, "sums": self.sums}))
        new.replace(self.place)
        return changes

    def _sum_changes(self, until: str) -> list[tuple[str, str, int, int]]:
        """Cents and rows of the window, by city and type of change."""
        window: dict[str, Any] = {"since": self.since, "until": until}
        window |= {"deletes": True, "before": True}
        if self.spark is not None:
            changed = self.table.changes(self.spark, **window)
            by_kind = changed.groupBy("city", "_change_type")
            return [tuple(row) for row in by_kind.agg({"cents": "sum", "*": "count"}).collect()]
        changed = self.table.changes(**window)
        by_kind = changed.group_by(["city", "_change_type"])
        return list(
            zip(
                *by_kind.aggregate([("cents", "sum"), ([], "count_all")]).to_pydict().values(),
                strict=True,
            )
        )
