"""Ten days of a shop's orders, and a dict that knows what a table of them must hold.

Amounts are whole cents, so that sums are exact. An order has an event time `ts`: of two versions
the one with the larger `ts` wins, whichever comes first.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

CITIES = ("oslo", "rome", "lima")
DAYS = 10
NEW_COLUMN_DAY = 5  # from here on orders have a column `channel`
LOST_ANSWER_DAY = 4  # this day's batch is sent twice
MERGE_DAY = 7
UPDATE_DAY = 6
RETURN_DAY = 8  # orders that were deleted come again

Row = dict[str, Any]
Sums = dict[str, tuple[int, int]]


@dataclass
class Orders:
    """What a right table holds after each batch, kept in a dict."""

    rows: dict[str, Row] = field(default_factory=dict)
    deleted: dict[str, Row] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def make_day(self, day: int) -> list[Row]:
        """A day's batch: new orders, corrections, late rows, and one order three times."""
        new = [self._order(day, number) for number in range(40)]
        known = self.chance.sample(sorted(self.rows), min(12, len(self.rows)))
        corrections = [self._changed(self.rows[key], day * 1000 + 900) for key in known[:8]]
        # These were on their way for long: the table has a newer version, which must stay.
        late = [{**self.rows[key], "cents": 1, "ts": self.rows[key]["ts"] - 1} for key in known[8:]]
        again = [self._changed(new[0], new[0]["ts"] + step) for step in (2, 1)]
        batch = new + corrections + late + again
        if day == RETURN_DAY:
            batch += [self._changed(row, day * 1000) for row in list(self.deleted.values())[:3]]
        self.chance.shuffle(batch)
        return batch

    def make_corrections(self, day: int) -> list[Row]:
        """What an accountant hands in to be merged: refunds and forgotten orders."""
        keys = self.chance.sample(sorted(self.rows), 6)
        refunds = [
            {"order_id": key, "city": self.rows[key]["city"], "cents": 0, "ts": day * 1000 + 950}
            for key in keys
        ]
        forgotten = {"order_id": "forgotten", "city": "rome", "cents": 500, "ts": day * 1000 + 950}
        return [*refunds, forgotten]

    def upsert(self, batch: list[Row]) -> None:
        """The newest version of each order counts."""
        for row in batch:
            known = self.rows.get(row["order_id"])
            if known is None or row["ts"] >= known["ts"]:
                self.rows[row["order_id"]] = dict(row)

    def delete(self, keys: list[str]) -> None:
        """Orders that are taken back."""
        for key in keys:
            self.deleted[key] = self.rows.pop(key)

    def sums(self) -> Sums:
        """Cents and number of orders by city."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in self.rows.values():
            found[row["city"]][0] += row["cents"]
            found[row["city"]][1] += 1
        return {city: (cents, count) for city, (cents, count) in sorted(found.items())}

    def _order(self, day: int, number: int) -> Row:
        row = {
            "order_id": f"d{day:02}-{number:03}",
            "city": self.chance.choice(CITIES),
            "cents": self.chance.randrange(100, 90_000),
            "ts": day * 1000 + number * 10,
        }
        return row if day < NEW_COLUMN_DAY else {**row, "channel": "web"}

    def _changed(self, row: Row, ts: int) -> Row:
        return {**row, "cents": self.chance.randrange(100, 90_000), "ts": ts}
