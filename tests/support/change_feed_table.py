"""A table that is written at random beside a dict, and what its change feed must say by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import hoodoo
from support.dead_writes import EXPIRY_S, make_older

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("v", pa.int64()),
        ("tags", pa.list_(pa.string())),
    ]
)
COLUMNS = SCHEMA.names
PARTITIONS = ("x", "y", "z")
KEYS = 12
WRITES = ("insert", "upsert", "upsert", "delete", "overwrite", "drop", "overwrite_table", "same")
SERVICES = ("compact", "log_compact", "cluster", "clean", "archive")
OPTIONS: Mapping[str, object] = {
    "hoodie.clean.automatic": False,
    "hoodie.archive.automatic": False,
    "hoodie.clean.commits.retained": 3,
    "hoodie.keep.min.commits": 4,
    "hoodie.keep.max.commits": 5,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.compact.inline.max.delta.commits": 1,
    "hoodie.log.compaction.blocks.threshold": 2,
}

Row = tuple[Any, ...]  # id, p, v, tags
State = dict[Any, Row]
Change = tuple[str, Row]


@dataclass
class Followed:
    """A table, what it should hold, and what it held when each commit had completed."""

    place: Path
    table: hoodoo.Table
    is_global: bool
    state: State = field(default_factory=dict)
    past: list[tuple[str, State]] = field(default_factory=list)
    """Completion times, each with the rows then."""

    def identity(self, row: Row) -> Any:
        """What a row is known by."""
        return row[0] if self.is_global else row[:2]

    def play(self, step: str, chance: Random) -> None:
        """One step on both; those that make no sense now are left out."""
        done = getattr(self, f"_{step}")(chance)
        if done is not None:
            self.past.append((done.completion_time, dict(self.state)))

    def run_service(self, step: str) -> None:
        """One step that changes no row."""
        table = self.table
        match step:
            case "compact" if "mor" in self.table.uri:
                if table.schedule_compaction() is not None:
                    table.run_compaction()
            case "log_compact" if "mor" in self.table.uri:
                if table.schedule_log_compaction() is not None:
                    table.run_log_compaction()
            case "cluster":
                if table.schedule_clustering(order_by=["v"]) is not None:
                    table.run_clustering()
            case "clean":
                table.clean()
            case "archive":
                self._age()
                table.recover()
                self._age()
                table.archive()

    def read(self) -> State:
        """The rows, as the table has them."""
        rows = _rows(self.table.to_arrow(columns=COLUMNS))
        found = {self.identity(row): row for row in rows}
        assert len(found) == len(rows)
        return found

    def _age(self) -> None:
        for path in (self.place / ".hoodie").rglob("*"):
            if path.is_file():
                make_older(path, 3 * EXPIRY_S)

    def _put(self, rows: list[Row]) -> None:
        self.state |= {self.identity(row): row for row in rows}

    def _insert(self, chance: Random) -> Any:
        fresh = [row for row in _draw(chance) if self.identity(row) not in self.state]
        unique = list({self.identity(row): row for row in fresh}.values())
        self._put(unique)
        return self.table.insert(_table(unique))

    def _upsert(self, chance: Random) -> Any:
        rows = list({self.identity(row): row for row in _draw(chance)}.values())
        self._put(rows)
        return self.table.upsert(_table(rows))

    def _same(self, chance: Random) -> Any:
        """Rows are written as they are: that is no change."""
        if not self.state:
            return None
        return self.table.upsert(_table(chance.choices(list(self.state.values()), k=1)))

    def _delete(self, chance: Random) -> Any:
        if not self.state:
            return None
        gone = chance.sample(list(self.state.values()), k=min(2, len(self.state)))
        for row in gone:
            del self.state[self.identity(row)]
        return self.table.delete(_table(gone).select(["id", "p"]))

    def _overwrite(self, chance: Random) -> Any:
        target = chance.choice(PARTITIONS)
        rows = [(i, target, v, t) for i, _, v, t in _draw(chance)]
        if self.is_global:  # an overwrite does not look for keys elsewhere
            rows = [r for r in rows if self.state.get(r[0], r)[1] == target]
        if not rows:
            return None
        rows = list({self.identity(row): row for row in rows}.values())
        self.state = {k: row for k, row in self.state.items() if row[1] != target}
        self._put(rows)
        return self.table.insert_overwrite(_table(rows))

    def _overwrite_table(self, chance: Random) -> Any:
        if chance.random() < 0.6:
            return None
        rows = list({self.identity(row): row for row in _draw(chance)}.values())
        self.state = {}
        self._put(rows)
        return self.table.insert_overwrite_table(_table(rows))

    def _drop(self, chance: Random) -> Any:
        present = sorted({row[1] for row in self.state.values()})
        if not present:
            return None
        target = chance.choice(present)
        self.state = {k: row for k, row in self.state.items() if row[1] != target}
        return self.table.delete_partitions([f"p={target}"])


def follow_new_table(folder: Path, kind: str, *, is_global: bool = False) -> Followed:
    """A new table to follow."""
    place = folder / kind
    hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="p", table_type=kind
    )
    index = {"hoodie.index.type": "GLOBAL_SIMPLE"} if is_global else {}
    return Followed(place, hoodoo.open_table(str(place), {**OPTIONS, **index}), is_global)


def expected_changes(old: State, new: State, *, before: bool = True) -> Counter[Change]:
    """The difference of two dicts."""
    changes: Counter[Change] = Counter()
    for key in {*old, *new}:
        if key not in old:
            changes["insert", new[key]] += 1
        elif key not in new:
            changes["delete", old[key]] += 1
        elif old[key] != new[key]:
            changes["update_postimage", new[key]] += 1
            if before:
                changes["update_preimage", old[key]] += 1
    return changes


def changes_in(rows: pa.Table) -> Counter[Change]:
    """What a change feed says."""
    types = rows["_change_type"].to_pylist()
    return Counter(zip(types, _rows(rows.select(COLUMNS)), strict=True))


def _rows(rows: pa.Table) -> list[Row]:
    return [
        tuple(tuple(v) if isinstance(v, list) else v for v in row.values())
        for row in rows.to_pylist()
    ]


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)


def _draw(chance: Random) -> list[Row]:
    return [
        (
            chance.randrange(KEYS),
            chance.choice(PARTITIONS),
            chance.randrange(100),
            chance.choice([None, (), ("a",), ("a", "b")]),
        )
        for _ in range(chance.randrange(1, 6))
    ]
