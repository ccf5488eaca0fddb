"""Bulk insert as a stream: rows for new file groups only, as they come, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodoo.format.completion import Digest
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.buckets import bucket_file_id
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId, MarkerKind, derived_uuid, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import RuntimeStats, WriteStat
from hoodoo.rows.conform import conform
from hoodoo.rows.merge import one_array
from hoodoo.write.base_files import BaseFiles
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import with_meta
from hoodoo.write.once import Made, write_once
from hoodoo.write.outputs import Outputs

HASH = "_hoodoo_hash"
"""The column with a 64-bit hash of each row's key."""
BUCKET = "_hoodoo_bucket"
"""The column with each row's bucket, on tables that have some."""

_MOST_HELD_BYTES = 64 << 20
_MOST_PENDING_BYTES = 256 << 20

Place = tuple[PartitionPath, int | None]


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One part of the rows of a bulk insert; `number` tells the parts apart."""

    context: WriteContext
    number: int
    attempt: int = 0


def write_stream(task: StreamTask, batches: Iterable[pa.Table]) -> tuple[WriteStat, ...]:
    """Write rows to new file groups, one per partition (and bucket), and tell what was written.

    Batches have the columns of the rows, `_hoodie_record_key`, `_hoodie_partition_path`,
    `_hoodoo_hash`, and, where each bucket is to be a file group, `_hoodoo_bucket`.

    Order: as `run_handle`; no file is visible before the last row has come.
    Crash: files with markers, of an instant that is pending: rolling it back removes them.
    """
    outputs = Outputs(task.context, index=task.number, attempt=task.attempt)

    def make() -> Made:
        clock = task.context.ref.env.clock
        started = clock.monotonic()
        stream = _Stream(task, outputs)
        for batch in batches:
            stream.write(batch)
        stats = stream.end()
        took_ms = int((clock.monotonic() - started) * 1000)
        runtime = RuntimeStats(total_scan_time=0, total_create_time=took_ms, total_upsert_time=0)
        return tuple(replace(stat, runtime_stats=runtime) for stat in stats), stream.digest

    def digest() -> Digest:
        return sum((Digest.of(batch.column(HASH)) for batch in batches), Digest())

    return write_once(outputs, f"stream-{task.number}", make, digest)


class _Stream:
    """The open files of a stream, and what has come so far."""

    def __init__(self, task: StreamTask, outputs: Outputs) -> None:
        self._task = task
        self._outputs = outputs
        self._files: dict[Place, BaseFiles] = {}
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._rows = 0
        self.digest = Digest()

    def write(self, batch: pa.Table) -> None:
        """Add rows; some batches are spread over the files at a time, as small shares cost much."""
        self.digest += Digest.of(batch.column(HASH))
        rows = conform(batch, self._task.context.schema)
        for name in (RECORD_KEY, PARTITION_PATH, BUCKET):
            if name in batch.column_names:
                rows = rows.append_column(name, batch.column(name))
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > _MOST_HELD_BYTES:
            self._spread()

    def _spread(self) -> None:
        """Give each row to the file of its place."""
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        self._held, self._held_bytes = [], 0
        for place, mine in _by_place(rows):
            context, index = self._task.context, self._outputs.index
            full = with_meta(context, mine, place[0], index=index, first=self._rows)
            self._rows += mine.num_rows
            self._files_of(place).write(full)
        self._make_room()

    def end(self) -> list[WriteStat]:
        """Bring all files to their end."""
        self._spread()
        return [
            file.as_insert(partition)
            for (partition, _), files in self._files.items()
            for file in files.end()
        ]

    def _make_room(self) -> None:
        """Write the largest row groups out while too much waits for its own to be full."""
        pending = {place: files.pending_bytes for place, files in self._files.items()}
        total = sum(pending.values())
        while total > _MOST_PENDING_BYTES:
            largest = max(pending, key=pending.__getitem__)
            self._files[largest].flush()
            total -= pending.pop(largest)

    def _files_of(self, place: Place) -> BaseFiles:
        files = self._files.get(place)
        if files is None:
            partition, bucket = place
            self._outputs.ensure_partition(partition)
            group = FileGroupId(partition, self._file_id(place))
            files = BaseFiles(self._outputs, group, MarkerKind.CREATE, rolls_over=bucket is None)
            self._files[place] = files
        return files

    def _file_id(self, place: Place) -> FileId:
        partition, bucket = place
        write_id, name = self._task.context.write_id, f"{self._task.number}/{partition}"
        if bucket is None:
            return new_file_id(write_id, name)
        return bucket_file_id(bucket, derived_uuid(write_id, f"{name}/{bucket}"))


def _by_place(rows: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
    """Rows by the places that they go to."""
    encoded = one_array(rows.column(PARTITION_PATH)).dictionary_encode()
    partitions = encoded.dictionary.to_pylist()
    codes, span = encoded.indices.to_numpy().astype(np.int64), 1
    has_buckets = BUCKET in rows.column_names and rows.num_rows > 0
    if has_buckets:
        buckets = one_array(rows.column(BUCKET)).to_numpy()
        span = int(buckets.max()) + 1
        codes = codes * span + buckets
    distinct = np.unique(codes)
    if len(distinct) > 1:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        rows = rows.combine_chunks().take(pa.array(order))  # of many chunks it is far slower
    bounds = np.searchsorted(codes, [*distinct, span * len(partitions)])
    for code, start, end in zip(distinct.tolist(), bounds, bounds[1:], strict=False):
        bucket = code % span if has_buckets else None
        yield (PartitionPath(partitions[code // span]), bucket), rows.slice(start, end - start)
