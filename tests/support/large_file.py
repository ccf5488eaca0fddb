"""A base file of the usual size, and an upsert into it, each in a process of its own.

`python -m support.large_file make PLACE` writes the table; `... merge PLACE` runs the handle of an
upsert on it, and prints what memory that took, as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import hoodoo
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY, avro_from_arrow, with_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import InstantTime
from hoodoo.read.base_files import build_read_rule
from hoodoo.read.scan import slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.rows import merge
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.ref import open_ref
from hoodoo.write.execute import PhaseTimer, execute
from hoodoo.write.files.bulk_insert import HASH, StreamTask, write_stream
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.handle import HandleTask, run_handle
from hoodoo.write.index.destinations import FileGroupWrite, WriteKind
from hoodoo.write.planning.assignment import Assignment

ROWS, AT_ONCE = 850_000, 50_000
SCHEMA = pa.schema(
    [("id", pa.string()), ("noise", pa.string()), ("wide", pa.string()), ("v", pa.int64())]
)
# One row group of the whole file, as other writers make them.
OPTIONS = {"hoodie.parquet.max.file.size": 10**10, "hoodie.parquet.block.size": 4 * 10**9}


def rows(start: int, count: int, seed: int) -> pa.Table:
    """Rows of 1.3 kB in memory, of which 140 bytes are left in a file."""
    random = np.random.default_rng(seed)
    offsets = pa.py_buffer((np.arange(count + 1) * 256).astype(np.int32))
    noise = pa.StringArray.from_buffers(
        count, offsets, pa.py_buffer(random.bytes(count * 128).hex().encode())
    )
    words = pa.array([f"{n:03d}" * 300 for n in range(30)])
    return pa.table(
        [
            pa.array([f"key-{n:09d}" for n in range(start, start + count)]),
            noise,
            words.take(pa.array(random.integers(0, len(words), count))),
            pa.array(random.integers(0, 100, count)),
        ],
        schema=SCHEMA,
    )


FULL = with_meta_fields(SCHEMA)


def make(place: str) -> None:
    """A table of one file group."""
    hoodoo.create_table(place, schema=SCHEMA, record_key="id")
    ref = open_ref(place, OPTIONS)

    def batches() -> Iterator[pa.Table]:
        for start in range(0, ROWS, AT_ONCE):
            batch = rows(start, AT_ONCE, start)
            yield (
                batch.append_column(RECORD_KEY, batch["id"])
                .append_column(PARTITION_PATH, pa.repeat("", AT_ONCE))
                .append_column(HASH, pa.array(np.arange(AT_ONCE)))
            )

    assignment = Assignment(OperationType.BULK_INSERT, take_snapshot(ref), SCHEMA)
    execute(
        ref,
        assignment,
        lambda context, stop: write_stream(StreamTask(context, 0), batches()),
        LocalEngine(),
        PhaseTimer(ref.env),
    )


def peak_mb() -> int:
    """The most memory that this process had so far."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


def run_merge(place: str) -> dict[str, int]:
    """The handle of an upsert of some rows."""
    ref = open_ref(place)
    snapshot = take_snapshot(ref)
    (slice_,) = snapshot.slices()
    changed = rows(ROWS // 2, AT_ONCE, 1)
    changed = changed.append_column(RECORD_KEY, changed["id"])
    context = WriteContext(
        ref=ref,
        requested_time=InstantTime("20991231235959999"),
        by_key=True,
        schema=SCHEMA,
        schema_json=avro_from_arrow(SCHEMA, "t"),
        read_rule=build_read_rule(ref.properties, FULL, tuple(FULL.names)),
    )
    (read,) = slice_reads(snapshot, context.read_rule, [slice_])
    changes = merge.upserts(changed, changed["id"], ref.properties.merge)
    before = peak_mb()
    write = FileGroupWrite(0, WriteKind.MERGE, slice_.group, slice_)
    (stat,) = run_handle(HandleTask(context, write, changes, read))
    return {
        "file_mb": slice_.size_bytes >> 20,
        "rows": stat.num_writes,
        "updated": stat.num_update_writes,
        "before_mb": before,
        "peak_mb": peak_mb(),
    }


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        print(json.dumps(run_merge(sys.argv[2])))
