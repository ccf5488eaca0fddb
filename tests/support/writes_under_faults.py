"""A table, a write to it under faults, and what must be true afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from processes.table_checks import check_sound, recover_wholly

import hoodoo
from hoodoo.storage.local import LocalStorage
from support.carriers import KEYS_IN_SPARK, ROWS_IN_DRIVER
from support.drivers import Driver
from support.faults import DATA, LOG, Fault, Faults
from support.wheel import wheel_rows

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
PARTITIONS = 6
ROWS = 300
WRITING: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 2000,
    "hoodie.client.heartbeat.tolerable.misses": 10,
    "hoodie.parquet.small.file.limit": 0,  # else new rows would turn log files into base files
}
MENDING: Mapping[str, object] = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 1,
}
SWEPT_WITHIN_S = 30.0

Model = dict[str, tuple[str, int]]
"""Partition and version of each key."""


def model(first: int, count: int, v: int) -> Model:
    """Rows as `cluster/driver.py` makes them."""
    return {str(n): (f"p{n % PARTITIONS}", v) for n in range(first, first + count)}


class WriteUnderFaults:
    """A table with rows in every partition, which gets a write by Spark.

    `files` are those that faults should happen to: log files if the table has some.
    """

    def __init__(
        self, place: Path, kind: str, operation: str, *, partition_by: str | None = "part"
    ) -> None:
        self.place = place
        # A small one is collected by the driver; others go the way of much data.
        self._way = ROWS_IN_DRIVER if operation.startswith("small ") else KEYS_IN_SPARK
        self.operation = operation.removeprefix("small ")
        self.files = LOG if kind == "mor" else DATA
        self.rows = model(0, ROWS, 1)
        self.faults = Faults(place)
        self._storage = LocalStorage(str(place))
        table = hoodoo.create_table(
            str(place), schema=SCHEMA, record_key="id", partition_by=partition_by, table_type=kind
        )
        listed = [{"id": key, "part": part, "v": v} for key, (part, v) in self.rows.items()]
        table.insert(pa.Table.from_pylist(listed, SCHEMA))

    def begin(
        self, driver: Driver, *faults: Fault, request: str = "write", **options: object
    ) -> None:
        """Have the driver write: half of the rows are new, or all of them for a bulk insert."""
        self.faults.lay(*faults)
        first = ROWS if self.operation == "bulk_insert" else ROWS // 2
        self.rows |= model(first, ROWS, 2)
        driver.begin(
            request,
            operation=self.operation,
            table=str(self.place),
            options={**WRITING, **self._way, **options},
            first=first,
            count=ROWS,
            v=2,
        )

    def check_rows(self) -> None:
        """hoodoo and the wheel read the rows that must be there, each once."""
        table = hoodoo.open_table(str(self.place))
        assert _sorted(table.to_arrow(columns=SCHEMA.names).to_pylist()) == self._expected_rows()
        assert _sorted(wheel_rows(self.place)) == self._expected_rows()

    def check_swept(self) -> None:
        """The same once all is swept, and there is no file that no commit names."""
        recover_wholly(str(self.place), MENDING, within_s=SWEPT_WITHIN_S)
        assert _sorted(check_sound(str(self.place), MENDING)) == self._expected_rows()

    def others_that_published(self, attempt: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Data files that other attempts of the same task published."""
        return [
            event
            for event in self.faults.events("published", DATA)
            if (event["stage"], event["partition"]) == (attempt["stage"], attempt["partition"])
            and event["task"] != attempt["task"]
        ]

    def drafts(self) -> int:
        """How many files dead tasks left half written, where nobody sees them."""
        return len(self._storage.stale_temporaries(older_than_ms=0))

    def _expected_rows(self) -> list[tuple[str, str, int]]:
        return sorted((key, part, v) for key, (part, v) in self.rows.items())


def _sorted(rows: list[Any]) -> list[tuple[str, str, int]]:
    return sorted((row["id"], row["part"], row["v"]) for row in rows)
