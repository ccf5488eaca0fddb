"""The bytes of a metadata table's files: base HFiles, and log files of delta commits."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from hoodoo.errors import InputError
from hoodoo.format.hfile import write_hfile
from hoodoo.format.log import encode_metadata_log
from hoodoo.format.metadata.column_stats import encode_column_stats
from hoodoo.format.metadata.file_lists import encode_file_lists
from hoodoo.format.metadata.record_index import encode_record_index
from hoodoo.format.metadata.schema import schema_json
from hoodoo.format.metadata.small_records import encode_bloom_filters
from hoodoo.format.unions import empty_table
from hoodoo.metadata.entry_rules import rule_of
from hoodoo.metadata.merge import Batch
from hoodoo.model import metadata_table as parts
from hoodoo.model.instant import InstantTime

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
    partition: str, batch: Batch, *, instant_time: InstantTime, created_ms: int
) -> bytes:
    """The log file of one file group, with the entries and deleted keys of one instant."""
    entries = batch.entries if batch.entries is not None else empty_entries(partition)
    return encode_metadata_log(
        instant_time=instant_time,
        partition=partition,
        schema_json=schema_json(),
        keys=entries["key"],
        values=_encode(partition, entries) if entries.num_rows else _NO_VALUES,
        deleted_keys=batch.deleted,
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
