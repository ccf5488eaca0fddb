"""Bulk insert as a stream: rows for new file groups only, as they come, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodoo.format.markers import Digest
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.commit import RuntimeStats, WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import MarkerKind, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.rows.arrays import one_array
from hoodoo.rows.conform import conform
from hoodoo.rows.keys import partition_paths, record_keys
from hoodoo.write.files.base_files import BaseFiles
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import HandleOutput, write_handle_once
from hoodoo.write.files.meta_columns import add_meta_columns
from hoodoo.write.files.outputs import Outputs
from hoodoo.write.planning.prepare import refuse_unusable_partitions

HASH = "_hoodoo_hash"
"""The column with a 64-bit hash of each row's key."""

_MOST_HELD_BYTES = 64 << 20
_MOST_PENDING_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class StreamTask:
    """One part of the rows of a bulk insert; `number` tells the parts apart."""

    context: WriteContext
    number: int
    attempt: int = 0


def write_stream(task: StreamTask, batches: Iterable[pa.Table]) -> tuple[WriteStat, ...]:
    """Write rows to new file groups, one per partition, and tell what was written.

    Batches have the columns of the rows, and `_hoodoo_hash`.

    Order: as `run_handle`; no file is visible before the last row has come.
    Crash: files with markers, of an instant that is pending: rolling it back removes them.
    """
    outputs = Outputs(task.context, index=task.number, attempt=task.attempt)

    def make() -> HandleOutput:
        clock = task.context.ref.env.clock
        start_time = clock.monotonic()
        stream = _Stream(task, outputs)
        for batch in batches:
            stream.write(batch)
        stats = stream.end()
        took_ms = int((clock.monotonic() - start_time) * 1000)
        runtime = RuntimeStats(total_scan_time=0, total_create_time=took_ms, total_upsert_time=0)
        return tuple(replace(stat, runtime_stats=runtime) for stat in stats), stream.digest

    def digest() -> Digest:
        return sum((Digest.of(batch.column(HASH)) for batch in batches), Digest())

    return write_handle_once(outputs, f"stream-{task.number}", make, digest)


class _Stream:
    """The open files of a stream, and what has come so far."""

    def __init__(self, task: StreamTask, outputs: Outputs) -> None:
        self._task = task
        self._outputs = outputs
        self._rule = task.context.ref.properties.keys
        self._files: dict[PartitionPath, BaseFiles] = {}
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._rows = 0
        self.digest = Digest()

    def write(self, batch: pa.Table) -> None:
        """Add rows; some batches are spread over the files at a time, as small shares cost much."""
        self.digest += Digest.of(batch.column(HASH))
        rows, rule = conform(batch, self._task.context.schema), self._rule
        keys, partitions = record_keys(rows, rule), partition_paths(rows, rule)
        rows = rows.append_column(RECORD_KEY, keys).append_column(PARTITION_PATH, partitions)
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
        shares = list(_split_by_partition(rows))
        places = (partition for partition, _ in shares if partition not in self._files)
        refuse_unusable_partitions(self._task.context.ref, places)
        for partition, mine in shares:
            context, index = self._task.context, self._outputs.index
            full = add_meta_columns(context, mine, partition, index=index, first=self._rows)
            self._rows += mine.num_rows
            self._files_of(partition).write(full)
        self._make_room()

    def end(self) -> list[WriteStat]:
        """Bring all files to their end."""
        self._spread()
        return [
            file.as_insert(partition)
            for partition, files in self._files.items()
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

    def _files_of(self, partition: PartitionPath) -> BaseFiles:
        files = self._files.get(partition)
        if files is None:
            self._outputs.ensure_partition(partition)
            write_id, number = self._task.context.write_id, self._task.number
            group = FileGroupId(partition, new_file_id(write_id, f"{number}/{partition}"))
            files = BaseFiles(self._outputs, group, MarkerKind.CREATE, rolls_over=True)
            self._files[partition] = files
        return files


def _split_by_partition(rows: pa.Table) -> Iterator[tuple[PartitionPath, pa.Table]]:
    """Rows by the partitions that they belong to."""
    dictionary_paths = one_array(rows.column(PARTITION_PATH)).dictionary_encode()
    partitions = dictionary_paths.dictionary.to_pylist()
    if len(partitions) == 1:
        yield PartitionPath(partitions[0]), rows
        return
    codes = dictionary_paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    rows = rows.combine_chunks().take(pa.array(order))  # of many chunks it is far slower
    bounds = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    for code, partition in enumerate(partitions):
        start, end = bounds[code], bounds[code + 1]
        yield PartitionPath(partition), rows.slice(start, end - start)
