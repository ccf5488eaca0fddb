"""Partition `files`: the partitions of the table, and the files of each.

The entry `__all_partitions__` maps partitions, each other entry maps the files of the partition
that its key names: name -> size, deleted or not. What is known of a partition is the merge of all
its entries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.metadata_table.keys import ALL_PARTITIONS, key_texts
from hoodoo.format.metadata_table.schema import FILES, RECORD, RecordKind
from hoodoo.format.metadata_table.values import decode_values, encode_payload, payload_of

_MAP = RECORD.arrow.field(FILES).type

FILE_LISTS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("files", _MAP, nullable=False),
    ]
)
"""One row per entry, with its whole map."""

LISTED_FILES = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("is_deleted", pa.bool_(), nullable=False),
    ]
)
"""One row per file (or partition) of an entry."""


def decode_file_lists(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries of the partition `files` as a table of `FILE_LISTS`."""
    records = decode_values(values, schema_json)
    payload = payload_of(records, RecordKind.FILES, RecordKind.ALL_PARTITIONS)
    return pa.table([key_texts(keys), payload], FILE_LISTS)


def encode_file_lists(lists: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `FILE_LISTS`, by row."""
    lists = lists.combine_chunks()
    if not lists.num_rows:
        return pa.array([], pa.binary())
    is_all = pc.equal(lists["key"].chunk(0), ALL_PARTITIONS)
    kinds = pc.if_else(is_all, int(RecordKind.ALL_PARTITIONS), int(RecordKind.FILES))
    maps = lists["files"].chunk(0)
    return encode_payload(kinds.cast(pa.int32()), FILES, maps, base_file=base_file)


def explode(lists: pa.Table) -> pa.Table:
    """The files of all entries, as a table of `LISTED_FILES`."""
    lists = lists.combine_chunks()
    if not lists.num_rows:
        return LISTED_FILES.empty_table()
    maps = lists["files"].chunk(0)
    offsets = maps.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    sizes, is_deleted = maps.items[first:last].flatten()
    keys = lists["key"].chunk(0).take(pa.array(rows))
    return pa.table([keys, maps.keys[first:last], sizes, is_deleted], LISTED_FILES)


def gather(listing: pa.Table, keys: pa.Array | None = None) -> pa.Table:
    """Entries out of files: one for each of `keys`, or for each key that has files, sorted."""
    listing = listing.combine_chunks()
    own = listing["key"].combine_chunks()
    if keys is None:
        keys = pc.unique(own)
    keys = keys.take(pc.sort_indices(keys))  # texts sort like their UTF-8 bytes
    numbers = pc.index_in(own, keys)
    assert not numbers.null_count, "a file of no entry"
    numbers = numbers.to_numpy()
    order = np.argsort(numbers, kind="stable")
    listing = listing.take(pa.array(order))
    offsets = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(np.bincount(numbers, minlength=len(keys)), out=offsets[1:])
    columns = [listing[name].combine_chunks() for name in ("name", "size_bytes", "is_deleted")]
    items = pa.StructArray.from_arrays(columns[1:], fields=list(_MAP.item_type))
    maps = pa.MapArray.from_arrays(pa.array(offsets), columns[0], items, _MAP)
    return pa.table([keys, maps], FILE_LISTS)
