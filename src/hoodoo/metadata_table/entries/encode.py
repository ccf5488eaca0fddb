"""The bytes of a metadata table's files: base HFiles, and log files of delta commits."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.arrow_types import empty_table
from hoodoo.format.hfile import write_hfile
from hoodoo.format.log import encode_metadata_log
from hoodoo.format.metadata_table.bloom_filters import encode_bloom_filters
from hoodoo.format.metadata_table.column_stats import encode_column_stats
from hoodoo.format.metadata_table.files import encode_file_lists
from hoodoo.format.metadata_table.keys import Ints, file_group_numbers, secondary_values
from hoodoo.format.metadata_table.record_index import encode_record_index
from hoodoo.format.metadata_table.schema import schema_json
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.entries.rules import rule_of
from hoodoo.model import metadata_table as parts
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import SECONDARY_INDEX_PREFIX

_NO_VALUES = pa.array([], pa.binary())


class Encode(Protocol):
    """A table of entries to values, as HFiles have them."""

    def __call__(self, entries: pa.Table, /, *, base_file: str | None = None) -> pa.Array: ...


_ENCODERS: dict[str, Encode] = {
    parts.FILES: encode_file_lists,
    parts.COLUMN_STATS: encode_column_stats,
    parts.PARTITION_STATS: encode_column_stats,
    parts.BLOOM_FILTERS: encode_bloom_filters,
    parts.RECORD_INDEX: encode_record_index,
}
WRITABLE = frozenset(_ENCODERS)
"""The partitions whose entries we can write."""


def encode_log(
    partition: str, batch: EntryBatch, *, instant_time: InstantTime, created_ms: int
) -> bytes:
    """The log file of one file group, with the entries and deleted keys of one instant."""
    entries = batch.entries if batch.entries is not None else empty_entries(partition)
    return encode_metadata_log(
        instant_time=instant_time,
        partition=partition,
        schema_json=schema_json(),
        keys=entries["key"],
        values=_encode(partition, entries) if entries.num_rows else _NO_VALUES,
        deleted_keys=batch.deleted_keys,
        created_ms=created_ms,
    )


def encode_base(partition: str, entries: pa.Table, *, created_ms: int, name: str | None) -> bytes:
    """A base HFile with all entries of a file group; a compaction gives the file's `name`."""
    keys = entries["key"]
    info = {b"schema": schema_json().encode()}
    if entries.num_rows:
        info[b"minRecordKey"] = keys[0].as_py().encode()
        info[b"maxRecordKey"] = keys[-1].as_py().encode()
    values = _encode(partition, entries, base_file=name) if entries.num_rows else _NO_VALUES
    return write_hfile(keys, values, info=info, created_ms=created_ms)


def empty_entries(partition: str) -> pa.Table:
    """No entries of a partition."""
    return empty_table(rule_of(partition).schema)


def _encode(partition: str, entries: pa.Table, *, base_file: str | None = None) -> pa.Array:
    encode = _ENCODERS.get(partition)
    if encode is None:
        raise InputError(f"entries of {partition!r} in a metadata table are not written")
    return encode(entries, base_file=base_file)


Rows = TypeVar("Rows", pa.Table, pa.Array)


def split_by_file_group(partition: str, batch: EntryBatch, count: int) -> dict[int, EntryBatch]:
    """What goes to each file group of a partition that has `count` of them, sorted by key."""
    entries, deleted_keys = batch.entries, batch.deleted_keys
    entry_bounds, delete_bounds = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    if entries is not None:
        entries, entry_bounds = _order(partition, entries, entries["key"].combine_chunks(), count)
    if deleted_keys is not None:
        deleted_keys, delete_bounds = _order(partition, deleted_keys, deleted_keys, count)
    parts = {}
    for number in (
        ((np.diff(entry_bounds) > 0) | (np.diff(delete_bounds) > 0)).nonzero()[0].tolist()
    ):
        first, last = entry_bounds[number : number + 2].tolist()
        own = entries[first:last] if entries is not None else None
        first, last = delete_bounds[number : number + 2].tolist()
        parts[number] = EntryBatch(
            own, deleted_keys[first:last] if deleted_keys is not None else None
        )
    return parts


def _order(partition: str, rows: Rows, keys: pa.Array, count: int) -> tuple[Rows, Ints]:
    """Rows by file group and key, and where each group begins and ends."""
    order = pc.sort_indices(keys).to_numpy()
    numbers = _numbers(partition, keys, count)[order]
    by_group = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[by_group], np.arange(count + 1))
    return rows.take(pa.array(order[by_group])), bounds


def _numbers(partition: str, keys: pa.Array, count: int) -> Ints:
    if partition.startswith(SECONDARY_INDEX_PREFIX):  # one value, one file group
        keys = secondary_values(keys)
    return file_group_numbers(keys, count)
