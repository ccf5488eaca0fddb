"""Tables on disk with a past: writes whose rows are known, and files as old as one likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import hoodoo
from hoodoo.model.instant import InstantTime
from support.dead_writes import EXPIRY_S, make_older
from support.wheel import wheel_rows

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
SMALL: Mapping[str, object] = {
    "hoodie.clean.automatic": False,
    "hoodie.archive.automatic": False,
    "hoodie.clean.commits.retained": 2,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
}
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": 0}


def rows(v: int, *keys: str, part: str = "p") -> pa.Table:
    return pa.table([list(keys), [part] * len(keys), [v] * len(keys)], schema=SCHEMA)


@dataclass
class Story:
    """A table, and its rows as of each commit, by a dict."""

    place: Path
    table: hoodoo.Table
    rows: dict[str, int] = field(default_factory=dict)
    past: dict[InstantTime, dict[str, int]] = field(default_factory=dict)

    @property
    def times(self) -> list[InstantTime]:
        return list(self.past)

    def upsert(self, v: int, *keys: str, part: str = "p") -> InstantTime:
        done = self.table.upsert(rows(v, *keys, part=part))
        self.rows |= dict.fromkeys(keys, v)
        return self.note(done.instant)

    def drop(self, part: str, *keys: str) -> InstantTime:
        """Drop a partition, in which these keys are."""
        done = self.table.delete_partitions([f"part={part}"])
        for key in keys:
            del self.rows[key]
        return self.note(done.instant)

    def note(self, instant_time: InstantTime) -> InstantTime:
        self.past[instant_time] = dict(self.rows)
        return instant_time

    def go_back(self, instant_time: InstantTime) -> None:
        """Forget what came after a commit."""
        self.past = {time: then for time, then in self.past.items() if time <= instant_time}
        self.rows = dict(self.past[instant_time])

    def open(self, **options: object) -> hoodoo.Table:
        """The same table with other settings."""
        return hoodoo.open_table(str(self.place), {**SMALL, **options})

    def check(self, *, kept: int = 0) -> None:
        """We and the wheel read these rows; we also as of the last so many commits."""
        assert values(self.table.to_arrow()) == self.rows
        assert {row["id"]: row["v"] for row in wheel_rows(self.place)} == self.rows
        for time in self.times[-kept:] if kept else ():
            assert values(self.table.to_arrow(as_of=time)) == self.past[time], time

    def data_files(self) -> set[str]:
        found = (path for path in self.place.rglob("*") if ".hoodie/" not in path.as_posix())
        return {p.name for p in found if p.is_file() and not p.name.startswith(".hoodie_part")}

    def age(self, seconds: float = 3 * EXPIRY_S) -> None:
        """Make everything below `.hoodie` older, so that nobody seems to be at work."""
        for path in (self.place / ".hoodie").rglob("*"):
            if path.is_file():
                make_older(path, seconds)

    def settle(self) -> None:
        """Let the time pass in which leftovers are swept."""
        for _ in range(3):
            self.age()
            self.table.recover()
        self.age()


def values(read: pa.Table) -> dict[str, int]:
    """The value of each key, which must be there once."""
    keys = read.column("id").to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, read.column("v").to_pylist(), strict=True))


def new_story(
    place: Path, table_type: str = "cow", *, has_metadata: bool = False, **options: object
) -> Story:
    """A new table.

    Without a metadata table, unless told: archival waits for compactions of that, and these
    stories are about what a table keeps by itself.
    """
    hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        table_type=table_type,
        options={"hoodie.metadata.enable": has_metadata},
    )
    return Story(place, hoodoo.open_table(str(place), {**SMALL, **options}))


def long_story(
    place: Path,
    table_type: str = "cow",
    commits: int = 7,
    *,
    has_metadata: bool = False,
    **options: object,
) -> Story:
    """A table with commits that rewrite a file group, and add others."""
    story = new_story(place, table_type, has_metadata=has_metadata, **options)
    story.upsert(0, "a", "b", "c")
    for v in range(1, commits):
        story.upsert(v, "a", f"new {v}", part="p")
    return story
