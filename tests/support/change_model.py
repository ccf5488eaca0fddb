"""A table that is changed by predicates and merges, and the dict that it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import hoodoo

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("v", pa.int32()), ("w", pa.float64())]
)
ORDERED = SCHEMA.append(pa.field("ts", pa.int64()))
PARTITIONS = ("x", "y", "z")
Row = dict[str, Any]


def make(path: Path, kind: str, options: dict[str, str], *, ordered: bool = True) -> hoodoo.Table:
    return hoodoo.create_table(
        path / "t",
        schema=ORDERED if ordered else SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ts" if ordered else None,
        table_type=kind,
        options=options,
    )


@dataclass
class ChangedTable:
    """The table and its model; `carry` makes a source of rows, `spark` carries changes out."""

    table: hoodoo.Table
    seed: int
    carry: Callable[[pa.Table], Any] = lambda rows: rows
    spark: Any = None
    rows: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random, self._next = Random(self.seed), 0
        self._schema = self.table.schema

    def fill(self, count: int) -> None:
        new = [self._new() for _ in range(count)]
        self.table.insert(pa.Table.from_pylist(new, self._schema))
        self.rows.update((row["id"], row) for row in new)

    def _new(self) -> Row:
        self._next += 1
        chance = self._random
        row = {
            "id": f"k{self._next:04}",
            "p": chance.choice(PARTITIONS),
            "v": chance.choice([None, *range(10)]),
            "w": float(chance.randrange(100)),
            "ts": 1,
        }
        return {name: row[name] for name in self._schema.names}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            before = self._commits()
            step = self._random.choice([self._delete, self._update, self._move, self._merge])
            expected, done = step()
            assert self._commits() == before + (done is not None), "one commit or none"
            told = (0, 0, 0)
            if done is not None:
                told = done.stats.inserted, done.stats.updated, done.stats.deleted
            assert told == expected, step.__name__
            self.check()

    def _commits(self) -> int:
        """How many writes there were, those of table services aside."""
        is_log = self.table.properties["hoodie.table.type"] == "MERGE_ON_READ"
        action = "deltacommit" if is_log else "commit"
        return sum(instant.action == action for instant in self.table.timeline())

    def check(self) -> None:
        stored = self.table.to_arrow(columns=self._schema.names).to_pylist()
        assert sorted(stored, key=lambda row: row["id"]) == [
            self.rows[key] for key in sorted(self.rows)
        ]

    def _delete(self) -> tuple[tuple[int, int, int], Any]:
        limit, place = self._random.randrange(4), self._random.choice(PARTITIONS)
        gone = [
            key
            for key, row in self.rows.items()
            if row["v"] is not None and row["v"] < limit and row["p"] == place
        ]
        for key in gone:
            del self.rows[key]
        where = f"v < {limit} and p = '{place}'"
        return (0, 0, len(gone)), self.table.delete(where=where, spark=self.spark)

    def _update(self) -> tuple[tuple[int, int, int], Any]:
        value = self._random.randrange(10)
        hit = [row for row in self.rows.values() if row["v"] == value]
        for row in hit:
            row["v"], row["w"] = (row["v"] + 1) % 10 if row["v"] < 9 else 0, row["w"] * 2 + 1
        values = {"v": "case when v < 9 then v + 1 else 0 end", "w": "w * 2 + 1"}
        done = self.table.update(values, where=f"v = {value}", spark=self.spark)
        return (0, len(hit), 0), done

    def _move(self) -> tuple[tuple[int, int, int], Any]:
        here, there = self._random.sample(PARTITIONS, 2)
        hit = [r for r in self.rows.values() if r["p"] == here and r["w"] > 50]
        for row in hit:
            row["p"] = there
        where = f"p = '{here}' and w > 50"
        done = self.table.update({"p": f"'{there}'"}, where=where, spark=self.spark)
        return (0, len(hit), 0), done

    def _merge(self) -> tuple[tuple[int, int, int], Any]:
        """Rows are updated (at times moved), deleted, and added, all at once."""
        chance = self._random
        known = chance.sample(sorted(self.rows), min(len(self.rows), chance.randrange(8)))
        source = [dict(self.rows[key]) for key in known] + [self._new() for _ in range(3)]
        for row in source:
            row["op"], row["w"] = chance.choice("UUD"), float(chance.randrange(100))
            row["p"] = chance.choice([row["p"], *PARTITIONS])
        done = self.table.merge(
            self.carry(
                pa.Table.from_pylist(source, self._schema.append(pa.field("op", pa.string())))
            ),
            on="id",
            when_matched_delete="source.op = 'D' and target.v is not null",
            when_matched_update={"w": "s.w + t.w", "p": "source.p"},
            when_not_matched_insert="source.op = 'U'",
        )
        inserted = updated = deleted = 0
        for row in source:
            op, key = row.pop("op"), row["id"]
            mine = self.rows.get(key)
            if mine is None:
                inserted += op == "U"
                if op == "U":
                    self.rows[key] = row
            elif op == "D" and mine["v"] is not None:
                deleted += 1
                del self.rows[key]
            else:
                updated += 1
                mine["w"], mine["p"] = mine["w"] + row["w"], row["p"]
        return (inserted, updated, deleted), done
