"""The README on Spark: its quick start runs as pasted, and every cell of its matrix is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodoo

pytestmark = pytest.mark.spark

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), ("ts", pa.int64())]
)
Rows = dict[str, int]
FIRST: Rows = {"a1": 1, "a2": 2, "b1": 3}


def test_quick_start_runs_as_pasted(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python spark\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.findall(r"\| *(t\d)\| *([\d.]+)\|", done.stdout) == [("t1", "25.0"), ("t4", "8.4")]
    counts = re.findall(r"^(\d) rows", done.stdout, re.MULTILINE)
    assert counts == ["3", "2", "3"]


def cells() -> list[tuple[str, str, str, bool]]:
    """Operation, engine, table type, and whether the README says yes."""
    (table,) = re.findall(r"^\| operation (.*?)\n\n", README, re.MULTILINE | re.DOTALL)
    header, _, *lines = table.splitlines()
    columns = [cell.strip().split(", ") for cell in header.split("|")[1:-1]]
    assert sorted(columns) == [[e, t] for e in ("Arrow", "Spark") for t in ("COW", "MOR")]
    found = []
    for line in lines:
        operation, *answers = (cell.strip() for cell in line.split("|")[1:-1])
        assert set(answers) <= {"yes", "no"}
        for (engine, kind), answer in zip(columns, answers, strict=True):
            found.append((operation.replace("`", ""), engine, kind.lower(), answer == "yes"))
    return found


class Side:
    """A table of three rows in two partitions, and one engine that writes and reads it."""

    def __init__(self, spark: SparkSession | None, place: Path, kind: str) -> None:
        self.spark = spark
        self.place = str(place)
        self.table = hoodoo.create_table(
            self.place,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            ordering="ts",
            table_type=kind,
        )
        self.first = self.table.insert(self.frame(FIRST, ts=1)).instant

    def frame(self, rows: Rows, ts: int) -> Any:
        """Rows as this engine takes them; the first letter of a key is its partition."""
        listed = [{"id": key, "part": key[0], "v": v, "ts": ts} for key, v in rows.items()]
        if self.spark is None:
            return pa.Table.from_pylist(listed, SCHEMA)
        columns = "id string, part string, v long, ts long"
        return self.spark.createDataFrame([tuple(row.values()) for row in listed], columns)

    def read(self, **how: Any) -> Rows:
        if self.spark is None:
            return values(self.table.to_arrow(**how).to_pylist())
        return values(self.table.read(self.spark, **how).collect())

    def changes(self) -> Rows:
        if self.spark is None:
            return values(self.table.changes(since=self.first).to_pylist())
        return values(self.table.changes(self.spark, since=self.first).collect())

    def feed(self) -> Rows:
        """The changes, with their types in front of the keys."""
        self.table.delete(self.frame({"a2": 0}, ts=2))
        if self.spark is None:
            found = self.table.changes(since=self.first, deletes=True).to_pylist()
        else:
            found = self.table.changes(self.spark, since=self.first, deletes=True).collect()
        listed = [{"id": f"{row['_change_type']} {row['id']}", "v": row["v"]} for row in found]
        return values(listed)


def values(rows: Any) -> Rows:
    found = [(row["id"], row["v"]) for row in rows]
    assert len(found) == len(dict(found))
    return dict(sorted(found))


def write_and_read(operation: str, rows: Rows) -> Callable[[Side], Rows]:
    def write(side: Side) -> Rows:
        getattr(side.table, operation)(side.frame(rows, ts=2))
        return side.read()

    return write


def after_upsert(read: Callable[[Side], Rows]) -> Callable[[Side], Rows]:
    def upsert_and_read(side: Side) -> Rows:
        side.table.upsert(side.frame({"a1": 9, "b2": 4}, ts=2))
        return read(side)

    return upsert_and_read


def delete_partition_and_read(side: Side) -> Rows:
    side.table.delete_partitions(["part=a"])
    return side.read()


def delete_by_predicate_and_read(side: Side) -> Rows:
    side.table.delete(where="v < 2", spark=side.spark)
    return side.read()


def update_and_read(side: Side) -> Rows:
    side.table.update({"v": "v * 10"}, where="part = 'a'", spark=side.spark)
    return side.read()


def merge_and_read(side: Side) -> Rows:
    source = side.frame({"a1": 9, "c1": 5}, ts=2)
    side.table.merge(source, on="id", when_matched_update=True, when_not_matched_insert=True)
    return side.read()


def append_by_source_and_read(side: Side) -> Rows:
    assert side.spark is not None
    side.frame({"c1": 5}, ts=2).write.format("hoodoo").mode("append").save(side.place)
    return values(side.spark.read.format("hoodoo").load(side.place).collect())


DOES: dict[str, Callable[[Side], Rows]] = {
    "insert": write_and_read("insert", {"c1": 5}),
    "bulk_insert": write_and_read("bulk_insert", {"c1": 5}),
    "upsert": write_and_read("upsert", {"a1": 9, "c1": 5}),
    "delete": write_and_read("delete", {"a1": 0}),
    "delete by predicate": delete_by_predicate_and_read,
    "update": update_and_read,
    "merge": merge_and_read,
    "insert_overwrite": write_and_read("insert_overwrite", {"a9": 5}),
    "insert_overwrite_table": write_and_read("insert_overwrite_table", {"c1": 5}),
    "delete_partitions": delete_partition_and_read,
    "snapshot read": after_upsert(Side.read),
    "read-optimized read": after_upsert(lambda side: side.read(mode="read_optimized")),
    "time travel": after_upsert(lambda side: side.read(as_of=side.first)),
    "incremental read": after_upsert(Side.changes),
    "changes with deletes": after_upsert(Side.feed),
    'format("hoodoo") read and append': append_by_source_and_read,
}
GIVES: dict[str, Rows] = {
    "insert": {**FIRST, "c1": 5},
    "bulk_insert": {**FIRST, "c1": 5},
    "upsert": {**FIRST, "a1": 9, "c1": 5},
    "delete": {"a2": 2, "b1": 3},
    "delete by predicate": {"a2": 2, "b1": 3},
    "update": {"a1": 10, "a2": 20, "b1": 3},
    "merge": {**FIRST, "a1": 9, "c1": 5},
    "insert_overwrite": {"a9": 5, "b1": 3},
    "insert_overwrite_table": {"c1": 5},
    "delete_partitions": {"b1": 3},
    "snapshot read": {"a1": 9, "a2": 2, "b1": 3, "b2": 4},
    "time travel": FIRST,
    "incremental read": {"a1": 9, "b2": 4},
    "changes with deletes": {"update_postimage a1": 9, "insert b2": 4, "delete a2": 2},
    'format("hoodoo") read and append': {**FIRST, "c1": 5},
}
# The updates of a merge-on-read table are in logs, which this read leaves out.
READ_OPTIMIZED = {"cow": {**FIRST, "a1": 9}, "mor": FIRST}


@pytest.mark.parametrize(("operation", "engine", "kind", "works"), cells())
def test_matrix_tells_what_works(
    spark: SparkSession, tmp_path: Path, operation: str, engine: str, kind: str, works: bool
) -> None:
    if not works:
        assert (operation, engine) == ('format("hoodoo") read and append', "Arrow")
        return
    side = Side(spark if engine == "Spark" else None, tmp_path / "table", kind)
    rows = DOES[operation](side)
    if operation == "read-optimized read":
        assert {key: rows[key] for key in FIRST} == READ_OPTIMIZED[kind]
    else:
        assert rows == dict(sorted(GIVES[operation].items()))


def test_matrix_has_every_write_of_a_table() -> None:
    listed = {operation for operation, *_ in cells()}
    verbs = ("insert", "bulk", "upsert", "delete", "update", "merge")
    writes = {name for name in dir(hoodoo.Table) if name.startswith(verbs)}
    assert writes - {"delete_savepoint"} <= listed
    assert listed == set(DOES)
