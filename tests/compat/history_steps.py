"""Histories of a table that hoodoo and Apache Hudi share: pure, and the same for the same seed.

A step is drawn without a look at the table, so a history from which steps were taken away is one
too. Ordering values are never the same twice: it is always clear which of two rows is newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

ZONES = ("America/New_York", "Asia/Tokyo")
CITIES = ("sf", "la", "ny")
INDEXES = ("SIMPLE", "BLOOM", "BUCKET")
CARRIERS = ("rows_in_driver", "keys_in_driver", "keys_in_spark")
SERVICES = {
    "cow": ("cluster", "clean", "clean versions", "archive"),
    "mor": ("compact", "compact", "plan compaction", "cluster", "clean", "archive"),
}
_AGE, _LATE, _MOST_ROWS = 10_000, 5_000, 6


class Setting(NamedTuple):
    """What does not change during a history."""

    seed: int
    kind: str
    maker: str
    """Who creates the table: `hoodoo` (in UTC) or `hudi` (in local time)."""
    zone: str
    """Of Hudi, and of hoodoo where the table is in local time."""
    by_event: bool
    index: str
    small_files: bool
    """Whether new rows may go to files that are there."""
    log_format: str


class Row(NamedTuple):
    """A row; city and id are its key."""

    id: str
    city: str
    ts: int
    fare: float
    note: str | None


class Step(NamedTuple):
    """One operation, who does it and how, and what Hudi does right after its own."""

    number: int
    writer: str
    """`local` and `spark` are hoodoo's, `frame` and `sql` are Hudi's."""
    operation: str
    rows: tuple[Row, ...]
    carrier: str
    zone: str
    service: str
    is_checked: bool

    def __str__(self) -> str:
        how = {"spark": f" ({self.carrier})", "local": ""}.get(self.writer, f" in {self.zone}")
        rows = ", ".join(f"{r.id} {r.city} {r.ts} {r.fare:g} {r.note or '-'}" for r in self.rows)
        then = f", then {self.service}" if self.service else ""
        return f"{self.number:3} {self.writer}{how} {self.operation}: {rows}{then}"


def draw_setting(seed: int) -> Setting:
    """Eight seeds in a row are all kinds of tables, makers and time zones."""
    chance = Random(f"setting {seed}")
    return Setting(
        seed=seed,
        kind=("mor", "cow")[seed % 2],
        maker=("hudi", "hoodoo")[seed // 2 % 2],
        zone=ZONES[seed // 4 % 2],
        by_event=chance.random() < 0.75,
        index=chance.choice(INDEXES),
        small_files=chance.random() < 0.6,
        log_format=chance.choice(["avro", "parquet"]),
    )


OPERATIONS = {
    "local": ("upsert", "upsert", "insert", "delete", "overwrite"),
    "spark": ("upsert", "upsert", "bulk_insert", "delete", "drop"),
    "frame": ("upsert", "insert", "bulk_insert", "delete", "overwrite", "drop"),
    "sql": ("merge", "merge", "merge some columns", "merge and delete", "update", "delete"),
}
ORDERED = ("delete not newer",)
"""Of hoodoo's alone, and where rows have an ordering value."""


def draw_steps(setting: Setting) -> Iterator[Step]:
    """An endless history."""
    chance = Random(f"steps {setting.seed}")
    rows = _Rows(chance)
    deck: list[tuple[str, str]] = []
    services: list[str] = []
    number = 0
    while True:
        if not deck:
            deck = _deal(chance, setting)
        if not services:
            services = [one for one in SERVICES[setting.kind] if _can(setting, one)]
            chance.shuffle(services)
        writer, operation = deck.pop() if number else (_first(setting), "upsert")
        service = services.pop() if (writer, operation) == ("frame", "upsert") else ""
        yield Step(
            number=number,
            writer=writer,
            operation=operation,
            rows=rows.draw(number, operation, setting.by_event),
            carrier=chance.choice(CARRIERS),
            zone=setting.zone if setting.maker == "hudi" else chance.choice(ZONES),
            service=service if number else "",
            is_checked=chance.random() < 0.3,
        )
        number += 1


def _deal(chance: Random, setting: Setting) -> list[tuple[str, str]]:
    """Every operation of every writer once, and Hudi's upserts, which bring services, often."""
    deck = [(writer, one) for writer, named in OPERATIONS.items() for one in named]
    deck += [("frame", "upsert")] * 5
    if setting.index == "BUCKET":  # Hudi's own bulk insert makes a bucket's file group twice
        deck.remove(("frame", "bulk_insert"))
    if setting.by_event:
        deck += [(writer, one) for writer in ("local", "spark") for one in ORDERED]
    # Whole partitions are replaced less often than rows, or histories of rows would be short.
    deck = [one for one in deck if one[1] not in ("drop", "overwrite") or chance.random() < 0.4]
    chance.shuffle(deck)
    return deck


def _first(setting: Setting) -> str:
    return "frame" if setting.maker == "hudi" else "local"


def _can(setting: Setting, service: str) -> bool:
    """Hudi does not cluster tables with a simple bucket index."""
    return not (service == "cluster" and setting.index == "BUCKET")


class _Rows:
    """Draws rows; keys come again, and some rows come late."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.used: list[tuple[str, str]] = []
        self.serial = 0

    def draw(self, number: int, operation: str, by_event: bool) -> tuple[Row, ...]:
        may_be_late = by_event and operation in ("upsert", "merge", "delete not newer")
        found: dict[tuple[str, str], Row] = {}
        for _ in range(self.chance.randint(1, _MOST_ROWS)):
            row = self._row(number, operation, may_be_late)
            found[row.id, row.city] = row
        rows = tuple(found.values())
        if operation in ("overwrite", "drop"):
            rows = tuple(row for row in rows if row.city == rows[0].city)
        self.used = sorted({*self.used, *((row.id, row.city) for row in rows)})
        if operation == "upsert" and by_event and self.chance.random() < 0.3:
            again = rows[0]._replace(ts=self._time(number, True), fare=-1.0)
            rows = (*rows, again)  # a key twice in one write: the newer row counts
        return rows

    def _row(self, number: int, operation: str, may_be_late: bool) -> Row:
        chance = self.chance
        ts = self._time(number, may_be_late and chance.random() < 0.35)
        name, city = f"k{chance.randrange(12)}", chance.choice(CITIES)
        if operation in ("insert", "bulk_insert"):
            name = f"n{self.serial}"  # inserts do not look for keys, so these are new
        elif self.used and chance.random() < 0.7:
            name, city = chance.choice(self.used)
        note = chance.choice([None, "a", "ö", "long enough to be a word"])
        fare = chance.randrange(1, 400) / 4
        if operation == "merge and delete" and chance.random() < 0.5:
            fare = -fare
        return Row(name, city, ts, fare, note)

    def _time(self, number: int, is_late: bool) -> int:
        self.serial += 1
        age = self.chance.randint(0, 6) * _AGE + _LATE if is_late else 0
        return max(0, number * _AGE - age) + 10 * _AGE + self.serial
