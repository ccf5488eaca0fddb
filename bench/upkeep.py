"""Clean and archive of a table that was left alone: seconds for thousands of instants."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pyarrow as pa

import hoodoo
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import NO_COMMIT, SCHEMA_KEY, CommitMetadata, WriteStat
from hoodoo.model.instant import Action, Instant, State, from_wall_ms
from hoodoo.model.names import BaseFileName, FileId, WriteToken
from hoodoo.model.paths import PartitionPath
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path

INSTANTS = 5_000
GROUPS = 10
_START_MS = 1_767_225_600_000


def build(place: Path, instants: int) -> hoodoo.Table:
    """A table with so many commits, each of which made a new version of a file group."""
    schema = pa.schema([("id", pa.string())])
    hoodoo.create_table(str(place), schema=schema, record_key="id")
    ref = open_ref(str(place))
    layout, text = ref.properties.timeline_paths, ref.properties.create_schema or ""
    (place / layout.active).mkdir(parents=True, exist_ok=True)
    newest: dict[int, str] = {}
    for number in range(instants):
        time = from_wall_ms(_START_MS + 1000 * number)
        group = number % GROUPS
        name = BaseFileName(FileId(f"group{group}-0"), WriteToken("0-1-0"), time)
        stat = WriteStat(
            file_id=name.file_id,
            path=str(name),
            prev_commit=newest.get(group, NO_COMMIT),
            partition_path=PartitionPath(""),
            num_writes=1000,
        )
        newest[group] = time
        data = codec.encode(
            CommitMetadata(
                partition_to_write_stats={PartitionPath(""): (stat,)},
                extra_metadata={SCHEMA_KEY: text},
                operation_type="UPSERT",
            )
        )
        # Written past the storage seam on purpose: no fsync for files of a benchmark.
        (place / str(name)).write_bytes(b"")
        done = from_wall_ms(_START_MS + 1000 * number + 500)
        for state, content in (
            (Instant(time, Action.COMMIT, State.REQUESTED), b""),
            (Instant(time, Action.COMMIT, State.INFLIGHT), b""),
            (Instant(time, Action.COMMIT, State.COMPLETED, done), data),
        ):
            path = place / instant_path(layout, state)
            path.write_bytes(content)
            os.utime(path, (1_767_225_600, 1_767_225_600))
    return hoodoo.open_table(str(place))


def run(folder: Path) -> None:
    """Print how long a clean and an archive of it take, and a clean when there is little to do."""
    table = build(folder / "t", INSTANTS)
    _measure(f"clean, {INSTANTS:,} commits", lambda: len(table.clean()[0].files), "files deleted")
    _measure("clean again, nothing to do", lambda: len(table.clean()), "cleans")
    _measure(f"archive, {INSTANTS:,} commits", lambda: len(table.archive().instants), "archived")
    _measure("archive again, nothing to do", lambda: len(table.archive().instants), "archived")


def _measure(what: str, work: Callable[[], int], unit: str) -> None:
    began = perf_counter()
    count = work()
    print(f"{what:<34} {perf_counter() - began:8.2f} s  {count:,} {unit}")
