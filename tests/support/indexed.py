"""Tables of keys, partitions, an ordering column and a value, with any index; rows as tuples."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.model.keys import BucketRule, bucket_of
from hoodoo.model.names import parse_base_file
from hoodoo.write.index.bucket_hash import bucket_numbers
from support.wheel import wheel_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
INDEX = "hoodie.index.type"
FILTERS = {INDEX: "BLOOM", "hoodie.metadata.index.bloom.filter.enable": "true"}
"""The bloom index, with the filters of files in the metadata table."""
BUCKETS = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
GLOBAL = {INDEX: "GLOBAL_SIMPLE"}
STAYS = {**GLOBAL, "hoodie.simple.index.update.partition.path": "false"}
RECORD = {
    INDEX: "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
}
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])
Row = tuple[str, str, int, int]  # id, p, ts, v


def arrow(rows: list[Row]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def create(place: Path | str, kind: str, options: dict[str, str], ordering: str | None) -> Any:
    """A new table."""
    return hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        ordering=ordering,
        table_type=kind,
        options=options,
    )


def rows_in(table: pa.Table) -> list[Row]:
    """The rows of a table, sorted."""
    return sorted(tuple(row.values()) for row in table.select(SCHEMA.names).to_pylist())


def read_both(table: Any) -> list[Row]:
    """What we read, once the wheel reads the same."""
    ours = rows_in(table.to_arrow())
    theirs = [tuple(row[name] for name in SCHEMA.names) for row in wheel_rows(table.uri)]
    assert ours == sorted(theirs)
    return ours


def assert_in_buckets(table: Any) -> None:
    """One file group for each bucket, with the keys of that bucket."""
    rows = table.to_arrow()
    numbers = bucket_numbers(rows.column("_hoodie_record_key"), BucketRule(3, ("id",)))
    groups = set()
    for partition, file, number in zip(
        rows.column("_hoodie_partition_path").to_pylist(),
        rows.column("_hoodie_file_name").to_pylist(),
        numbers.tolist(),
        strict=True,
    ):
        name = parse_base_file(file)
        file_id = name.file_id if name else file
        assert bucket_of(file_id) == number
        groups.add((partition, file_id))
    assert max(Counter((p, bucket_of(i)) for p, i in groups).values(), default=1) == 1
