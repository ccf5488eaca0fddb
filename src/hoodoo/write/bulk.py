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
from hoodoo.write.base_files import BaseFiles, Written
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import with_meta
from hoodoo.write.once import Made, write_once
from hoodoo.write.outputs import Outputs

HASH = "_hoodoo_hash"
"""The column with a 64-bit hash of each row's key."""
BUCKET = "_hoodoo_bucket"
"""The column with each row's bucket, on tables that have some."""

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
        took_ms = int((clock.monotonic() - started) * 1000)
        runtime = RuntimeStats(total_scan_time=0, total_create_time=took_ms, total_upsert_time=0)
        stats = tuple(replace(stat, runtime_stats=runtime) for stat in stream.end())
        return stats, stream.digest

    def digest() -> Digest:
        return sum((Digest.of(batch.column(HASH)) for batch in batches), Digest())

    return write_once(outputs, f"stream-{task.number}", make, digest)


class _Stream:
    """The open files of a stream, and what has come so far."""

    def __init__(self, task: StreamTask, outputs: Outputs) -> None:
        self._task = task
        self._outputs = outputs
        self._files: dict[Place, BaseFiles] = {}
        self.digest = Digest()

    def write(self, batch: pa.Table) -> None:
        """Give each row to the file of its place."""
        context, index = self._task.context, self._outputs.index
        first, self.digest = self.digest.rows, self.digest + Digest.of(batch.column(HASH))
        rows = conform(batch, context.schema).append_column(RECORD_KEY, batch.column(RECORD_KEY))
        for place, chosen in _by_place(batch):
            mine = rows if chosen is None else rows.take(chosen)
            full = with_meta(context, mine, place[0], index=index, first=first)
            first += mine.num_rows
            self._files_of(place).write(full)
        self._make_room()

    def end(self) -> list[WriteStat]:
        """Bring all files to their end."""
        return [
            _stat(partition, file)
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


def _by_place(batch: pa.Table) -> Iterator[tuple[Place, pa.Array | None]]:
    """The places that occur in a batch, each with the positions of its rows; None: all of them."""
    encoded = one_array(batch.column(PARTITION_PATH)).dictionary_encode()
    partitions = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy().astype(np.int64)
    buckets, span = None, 1
    if BUCKET in batch.column_names and batch.num_rows:
        buckets = one_array(batch.column(BUCKET)).to_numpy().astype(np.int64)
        span = int(buckets.max()) + 1
        codes = codes * span + buckets
    distinct = np.unique(codes)
    order = np.argsort(codes, kind="stable") if len(distinct) > 1 else None
    ends = np.searchsorted(codes[order], distinct, side="right") if order is not None else ()
    start = 0
    for n, code in enumerate(distinct.tolist()):
        bucket = code % span if buckets is not None else None
        place = PartitionPath(partitions[code // span]), bucket
        if order is None:
            yield place, None
        else:
            yield place, pa.array(order[start : ends[n]])
            start = int(ends[n])


def _stat(partition: PartitionPath, file: Written) -> WriteStat:
    return WriteStat(
        file_id=file.name.file_id,
        path=file.path,
        num_writes=file.rows,
        num_inserts=file.rows,
        total_write_bytes=file.size_bytes,
        file_size_in_bytes=file.size_bytes,
        partition_path=partition,
    )
