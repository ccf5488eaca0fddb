"""A table that Spark writes, and the dict that it should be: random histories of operations.

Every row has an ordering value of its own, so that it is always clear which of two wins. Columns
come in three shapes: as the table was made, with a column more, and with wider numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

import hoodoo
from support.carriers import from_files
from support.indexed import BUCKETS, GLOBAL, INDEX, RECORD, STAYS
from support.record_indexed import check_index
from support.wheel import wheel_rows

INDEXES: Mapping[str, Mapping[str, str]] = {
    "simple": {INDEX: "SIMPLE"},
    "bloom": {INDEX: "BLOOM"},
    "bucket": BUCKETS,
    "global": GLOBAL,
    "stays": STAYS,
    "record": RECORD,
}
INDEX_NAMES = {
    "simple": "simple",
    "bloom": "bloom",
    "bucket": "bucket",
    "global": "global simple",
    "record": "record",
}
"""How the README calls them; `stays` is the global index with a setting."""
SORT_MODES = ("NONE", "GLOBAL_SORT", "PARTITION_SORT")
PARTITIONS = ("x", "y z", "naïve")
MARK = "_hoodie_is_deleted"

_MADE = [("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), (MARK, pa.bool_())]
SHAPES = (
    pa.schema([*_MADE, ("v", pa.int32()), ("w", pa.float32())]),
    pa.schema([*_MADE, ("v", pa.int32()), ("w", pa.float32()), ("note", pa.string())]),
    pa.schema([*_MADE, ("v", pa.int64()), ("w", pa.float64()), ("note", pa.string())]),
)
LAST = SHAPES[-1].names


class Row(NamedTuple):
    """A row in the widest shape; others leave columns out."""

    id: str
    p: str
    ts: int
    marked: bool | None
    v: int
    w: float
    note: str | None


class Step(NamedTuple):
    """An operation: its rows, in which shape, and whether Spark does it or this process."""

    operation: str
    rows: tuple[Row, ...]
    shape: int
    by_spark: bool


@dataclass
class Model:
    """What the table should hold: by key and partition, or, by a global index, by key."""

    index: str
    by_event: bool
    rows: dict[Any, Row] = field(default_factory=dict)
    place: dict[Any, str] = field(default_factory=dict)

    @property
    def is_global(self) -> bool:
        """Whether a key is one row of the table."""
        return self.index in ("global", "stays", "record")

    @property
    def moves(self) -> bool:
        """Whether rows follow the partition that is given."""
        return self.index not in ("stays", "record")

    def key(self, row: Row) -> Any:
        """What tells rows apart."""
        return row.id if self.is_global else (row.id, row.p)

    def winners(self, given: tuple[Row, ...]) -> list[Row]:
        """One row for each key."""
        found: dict[Any, Row] = {}
        for row in sorted(given, key=lambda row: row.ts):
            found[self.key(row)] = row
        return list(found.values())

    def fresh(self, given: tuple[Row, ...]) -> list[Row]:
        """Rows whose keys are not there, one for each: inserts do not look for them."""
        return [row for row in self.winners(given) if self.key(row) not in self.rows]

    def upsert(self, given: tuple[Row, ...] | list[Row]) -> None:
        """Rows that are not older than what is there; a marked one takes it away."""
        for row in self.winners(tuple(given)):
            key = self.key(row)
            if not self._wins(row):
                continue
            if row.marked:
                self.rows.pop(key, None)
                continue
            if key not in self.rows or self.moves:
                self.place[key] = row.p
            self.rows[key] = row

    def delete(self, given: tuple[Row, ...], *, everywhere: bool, ordered: bool) -> None:
        """Keys in their partition or in all; with ordering values, only what is not newer."""
        for row in given:
            for key in list(self.rows):
                there = self.rows[key]
                in_place = everywhere or self.is_global or self.place[key] == row.p
                too_late = ordered and self.by_event and row.ts < there.ts
                if there.id == row.id and in_place and not too_late:
                    del self.rows[key]

    def drop(self, partitions: set[str]) -> None:
        """All rows of partitions."""
        for key in [key for key in self.rows if self.place[key] in partitions]:
            del self.rows[key]

    def _wins(self, row: Row) -> bool:
        old = self.rows.get(self.key(row))
        return old is None or not self.by_event or row.ts >= old.ts


OPERATIONS = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partitions",
)
"""The operations of a table; the README's matrix has a line for each."""
_ALL = (
    *("insert", "upsert", "delete", "bulk_insert", "delete everywhere", "upsert"),
    *("insert_overwrite", "delete ordered", "delete_partitions", "upsert"),
    *("insert_overwrite_table", "upsert"),
)


def every_operation(chance: Random, model: Model, *, by_spark: bool) -> Iterator[Step]:
    """One history that has every operation, each kind of delete, and upserts on all they leave."""
    for number, operation in enumerate(_ALL):
        yield _step(chance, model, operation, number, by_spark=by_spark)


def history(chance: Random, model: Model, length: int) -> Iterator[Step]:
    """Steps that make sense on the table as the model has it by then; first comes a write."""
    deck: list[str] = []
    for number in range(length):
        if not deck:
            deck = ["upsert", "upsert", "upsert", "delete", "delete ordered", "delete everywhere"]
            deck += ["insert", "bulk_insert", "insert_overwrite", "delete_partitions"]
            deck += ["insert_overwrite_table"] if chance.random() < 0.3 else []
            chance.shuffle(deck)
        operation = deck.pop() if number else chance.choice(["upsert", "insert", "bulk_insert"])
        yield _step(chance, model, operation, number, by_spark=chance.random() < 0.8)


def _step(chance: Random, model: Model, operation: str, number: int, *, by_spark: bool) -> Step:
    rows = _rows(chance, operation, number)
    if operation in ("insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"):
        rows = tuple(row._replace(marked=None) for row in model.fresh(rows))
    elif operation != "upsert" or not model.by_event:
        rows = tuple(model.winners(rows))
    shape = min(chance.randrange(3), number)
    if shape < 2:
        rows = tuple(row._replace(v=row.v % 1000) for row in rows)
    if shape < 1:
        rows = tuple(row._replace(note=None) for row in rows)
    return Step(operation, rows, shape, by_spark)


def _rows(chance: Random, operation: str, number: int) -> tuple[Row, ...]:
    """Some rows, keys and partitions often the same; times without ties, some of them late."""
    made = []
    for _ in range(chance.randint(1, 9)):
        ts = chance.randrange(number + 1, number + 4) * 10_000 - chance.randrange(10_000)
        marked = chance.choice([None, False, False, True]) if operation == "upsert" else None
        made.append(
            Row(
                id=f"key-{chance.randrange(8)}",
                p=chance.choice(PARTITIONS),
                ts=ts,
                marked=marked,
                v=chance.randrange(1 << 40),
                w=chance.randrange(100) / 4,
                note=chance.choice([None, "a", "ö"]),
            )
        )
    return tuple({row.ts: row for row in made}.values())


def arrow(rows: tuple[Row, ...] | list[Row], shape: int) -> pa.Table:
    """Rows as a table of a shape."""
    listed = [dict(zip(LAST, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, SHAPES[shape])


def apply(
    spark: SparkSession, table: hoodoo.Table, model: Model, step: Step, files: Path | None = None
) -> None:
    """Do a step to the table and to the model; `files` is where Spark finds its rows, if in any."""
    operation, rows, shape, by_spark = step

    def given(columns: list[str] | None = None) -> Any:
        found = arrow(rows, shape)
        found = found.select(columns) if columns else found
        if by_spark and files:
            return from_files(spark, found, files)
        return spark.createDataFrame(found) if by_spark else found

    match operation:
        case "upsert":
            model.upsert(rows)
            table.upsert(given())
        case "insert" | "bulk_insert":
            model.upsert(rows)
            getattr(table, operation)(given())
        case "insert_overwrite" | "insert_overwrite_table":
            is_part = operation == "insert_overwrite"
            model.drop({row.p for row in rows} if is_part else set(PARTITIONS))
            model.upsert(rows)
            getattr(table, operation)(given())
        case "delete":
            model.delete(rows, everywhere=False, ordered=False)
            table.delete(given(["id", "p"]))
        case "delete ordered":
            model.delete(rows, everywhere=False, ordered=True)
            table.delete(given(["ts", "p", "id", "v"]))
        case "delete everywhere":
            model.delete(rows, everywhere=True, ordered=False)
            table.delete(given(["id"]))
        case "delete_partitions":
            there = {group.partition for group in table.files().groups}
            chosen = [f"p={row.p}" for row in rows if f"p={row.p}" in there]
            model.drop({path.removeprefix("p=") for path in chosen})
            table.delete_partitions(list(dict.fromkeys(chosen)))


def assert_equal(spark: SparkSession, table: hoodoo.Table, model: Model, told: object) -> None:
    """hoodoo on Spark, hoodoo without, and the `hudi` wheel read what the model has."""
    names = table.schema.names
    expected = sorted(
        _texts(dict(zip(LAST, row, strict=True)), names) for row in model.rows.values()
    )
    read = {
        "to_arrow": table.to_arrow().to_pylist(),
        "read": table.read(spark).toArrow().to_pylist(),
        "wheel": wheel_rows(table.uri),
    }
    if (
        model.is_global and not model.moves
    ):  # Spark takes the partition column from the path, where it stays
        del read["read"]
    if model.index == "record":
        check_index(table)
    for reader, rows in read.items():
        assert sorted(_texts(row, names) for row in rows) == expected, (reader, told)


def _texts(row: Mapping[str, Any], names: list[str]) -> list[str]:
    return [repr(row[name]) for name in names]
