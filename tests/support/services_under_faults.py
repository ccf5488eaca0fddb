"""A table with a plan of a table service, executed by Spark under faults."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import hoodoo
from support.drivers import Driver
from support.faults import Fault
from support.writes_under_faults import MENDING, ROWS, SCHEMA, WRITING, WriteUnderFaults, model

TYPES = {"compaction": "mor", "clustering": "cow", "log_compaction": "mor"}


class ServiceUnderFaults(WriteUnderFaults):
    """A table with rows in every partition, some of them updated, and a plan for all of it."""

    def __init__(self, place: Path, service: str) -> None:
        super().__init__(place, TYPES[service], "upsert")
        self.service = service
        table = hoodoo.open_table(str(place), {**WRITING})
        for v in (2, 3):
            changed = model(0, ROWS // v, v)
            self.rows |= changed
            listed = [{"id": key, "part": part, "v": v} for key, (part, _) in changed.items()]
            table.upsert(pa.Table.from_pylist(listed, SCHEMA))
        order = {"order_by": ["v"]} if service == "clustering" else {}
        instant = getattr(table, f"schedule_{service}")(**order)
        assert instant is not None
        self.instant = instant
        self.files = rf"^(?!\.hoodie/).*_{instant}\.parquet$"

    def begin_service(self, driver: Driver, *faults: Fault, repeats: bool = False) -> None:
        """Have the driver execute the plan."""
        self.faults.lay(*faults)
        driver.begin(
            "run_service",
            service=self.service,
            table=str(self.place),
            instant=self.instant,
            options={**WRITING},
            repeats=repeats,
        )

    def is_completed(self) -> bool:
        """Whether the plan is completed."""
        found = hoodoo.open_table(str(self.place), MENDING)._ref.load_timeline().find(self.instant)
        return found is not None and found.is_completed
