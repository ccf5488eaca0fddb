"""Whether indexes are what they would be if they were built from scratch now.

For simulations, soaks and tests: the table must be at rest, or its lock held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from hoodoo.format.metadata_table.files import explode
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.table import open_metadata_table
from hoodoo.model.metadata_table import BLOOM_FILTERS, FILES, PARTITION_STATS, RECORD_INDEX
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.services.indexing.entries import list_stored, make_entries
from hoodoo.table.ref import TableRef

_MOST_EXAMPLES = 4


def find_differences(ref: TableRef, *, engine: Engine | None = None) -> list[str]:
    """How the indexes in use differ from fresh ones; empty if they do not."""
    ref = ref.reopen()
    engine = engine or LocalEngine(threads=1)
    timeline = ref.load_timeline()
    stored_files = list_stored(ref, timeline)
    table = open_metadata_table(ref.env, timeline)
    differences: list[str] = []
    for partition in ref.properties.metadata_partitions:
        stored_entries = read_entries(table, table.load_partition(partition))
        fresh = make_entries(ref, engine, timeline, partition, stored_files)
        differences += _compare(
            partition, _facts(partition, stored_entries), _facts(partition, fresh)
        )
    return differences


def _compare(
    partition: str, stored_entries: Mapping[object, object], fresh: Mapping[object, object]
) -> Iterable[str]:
    if partition == PARTITION_STATS:  # they only widen
        fresh = {
            key: value
            for key, value in fresh.items()
            if not _is_within(value, stored_entries.get(key))
        }
        stored_entries = {}
        if fresh:
            yield f"{partition} does not cover {_describe(fresh)}"
        return
    missing = {key: value for key, value in fresh.items() if key not in stored_entries}
    extra = {key: value for key, value in stored_entries.items() if key not in fresh}
    wrong = {
        k: (stored_entries[k], v)
        for k, v in fresh.items()
        if k in stored_entries and stored_entries[k] != v
    }
    for what, which in (("lacks", missing), ("has too much", extra), ("is wrong in", wrong)):
        if which:
            yield f"{partition} {what}: {_describe(which)}"


def _describe(entries: Mapping[object, object]) -> str:
    examples = list(entries.items())[:_MOST_EXAMPLES]
    return f"{len(entries)} entries, such as {examples}"


def _facts(partition: str, entries: pa.Table) -> dict[object, object]:
    """What must be the same: times and texts of filters may differ."""
    if partition == FILES:
        live = [row for row in explode(entries).to_pylist() if not row["is_deleted"]]
        return {(row["key"], row["name"]): row["size_bytes"] for row in live}
    if partition == BLOOM_FILTERS:
        return dict.fromkeys(entries["key"].to_pylist(), True)
    if partition == RECORD_INDEX:
        rows = entries.select(["key", "partition", "file_id"]).to_pylist()
        return {row["key"]: (row["partition"], row["file_id"]) for row in rows}
    rows = entries.to_pylist()
    return {
        row["key"]: (
            *(row["file_name"], row["column_name"], row["value_count"], row["null_count"]),
            *(_unwrap(row["min_value"]), _unwrap(row["max_value"])),
        )
        for row in rows
    }


def _unwrap(bound: object) -> object:
    return bound["value"] if isinstance(bound, dict) else bound


def _is_within(fresh: object, stored_entry: object) -> bool:
    """Whether bounds of a partition's column contain those of its files."""
    if not isinstance(fresh, tuple) or not isinstance(stored_entry, tuple):
        return False
    least, most = (pair[-2:] for pair in (fresh, stored_entry))
    if None in most:  # unknown: nothing is left out by it
        return True
    if None in least:
        return True
    return bool(most[0] <= least[0] and least[1] <= most[1])
