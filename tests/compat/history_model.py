"""What a table that hoodoo and Apache Hudi share should hold: a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from compat.history_steps import Row, Step

Key = tuple[str, str]


@dataclass
class Model:
    """Rows by city and id; `unsure` has the keys of which several outcomes are right.

    Those are keys that were deleted and come back with a row that is older than what was deleted.
    A copy-on-write table has forgotten the key and takes the row; in the log of a merge-on-read
    table the delete may have an ordering value and win; and a delete without one is itself undone
    by the row after it, so that the base file's row, which is newer, shows again. Hudi's readers
    do all of this, so the model asks only that all readers agree, and goes on with what they say.
    """

    by_event: bool
    rows: dict[Key, Row] = field(default_factory=dict)
    past: dict[Key, list[Row]] = field(default_factory=dict)
    unsure: dict[Key, set[Row | None]] = field(default_factory=dict)

    def apply(self, step: Step) -> None:
        """Do a step."""
        _APPLY[step.operation](self, step.rows)

    def upsert(self, rows: Iterable[Row]) -> None:
        """Rows that are not older than what is there."""
        for row in newest(rows):
            key, past = (row.city, row.id), self.past.setdefault((row.city, row.id), [])
            old = self.rows.get(key)
            if old is None and self.by_event and any(one.ts > row.ts for one in past):
                self.unsure[key] = {None, row, *past}
            if old is None or not self.by_event or row.ts >= old.ts:
                self.rows[key] = row
            past.append(row)

    def delete(self, rows: Iterable[Row]) -> None:
        """Keys, whatever their ordering value."""
        for row in rows:
            self.rows.pop((row.city, row.id), None)

    def delete_not_newer(self, rows: Iterable[Row]) -> None:
        """Keys of which the row that is there is not newer."""
        for row in rows:
            old = self.rows.get((row.city, row.id))
            self.past.setdefault((row.city, row.id), []).append(row)
            if old is not None and (not self.by_event or old.ts <= row.ts):
                del self.rows[row.city, row.id]

    def overwrite(self, rows: Iterable[Row]) -> None:
        """The partitions of the rows have these and no others."""
        rows = tuple(rows)
        self.drop(rows)
        self.upsert(rows)

    def drop(self, rows: Iterable[Row]) -> None:
        """The partitions of the rows are gone, and all that happened in them."""
        gone = {row.city for row in rows}
        for mapping in (self.rows, self.past, self.unsure):
            for key in [key for key in mapping if key[0] in gone]:
                del mapping[key]  # type: ignore[attr-defined]  # a union of dicts

    def merge_some_columns(self, rows: Iterable[Row]) -> None:
        """Keys that are there get fare and time; the note stays."""
        there = [(self.rows.get((row.city, row.id)), row) for row in rows]
        self.upsert(old._replace(ts=row.ts, fare=row.fare) for old, row in there if old)

    def merge_and_delete(self, rows: Iterable[Row]) -> None:
        """A fare below zero deletes."""
        rows = tuple(rows)
        self.delete_not_newer(row for row in rows if row.fare < 0)
        self.upsert(row for row in rows if row.fare >= 0)

    def update(self, rows: Iterable[Row]) -> None:
        """Keys that are there get another note."""
        rows = tuple(rows)
        there = [self.rows.get((row.city, row.id)) for row in rows]
        self.upsert(old._replace(note=update_note(rows)) for old in there if old)

    def settle(self, read: dict[Key, Row]) -> None:
        """Take over what readers found where several outcomes are right."""
        for key, outcomes in self.unsure.items():
            row = read.get(key)
            assert row in outcomes, f"{key} is {row}, and should be one of {outcomes}"
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
        self.unsure.clear()


def update_note(rows: tuple[Row, ...]) -> str:
    """The note that an update sets in all its rows."""
    return f"updated {rows[0].ts}"


def newest(rows: Iterable[Row]) -> list[Row]:
    """One row for each key."""
    found: dict[Key, Row] = {}
    for row in sorted(rows, key=lambda row: row.ts):
        found[row.city, row.id] = row
    return list(found.values())


_APPLY: dict[str, Callable[[Model, Iterable[Row]], None]] = {
    "upsert": Model.upsert,
    "insert": Model.upsert,
    "bulk_insert": Model.upsert,
    "merge": Model.upsert,
    "merge some columns": Model.merge_some_columns,
    "merge and delete": Model.merge_and_delete,
    "update": Model.update,
    "delete": Model.delete,
    "delete not newer": Model.delete_not_newer,
    "overwrite": Model.overwrite,
    "drop": Model.drop,
}
