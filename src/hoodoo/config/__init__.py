"""The settings that hoodoo honours: each key once, with name, parser, default and a line of doc.

Read in this order:
    `key`             `Key` (one setting), its parsers, and `Config` (options of a caller, by key)
    `table`           keys of hoodie.properties, and how they become `TableProperties`
    `write`           file sizes, Parquet, bloom filters, log blocks; how Spark spreads rows
    `index`           which index finds the file group of a key; buckets
    `metadata_table`  whether reads and writes use a metadata table, and which indexes it has
    `concurrency`     locks, heartbeats, markers, conflicts, early detection, failed writes
    `compaction`      when logs are compacted, and of which file groups
    `clustering`      which files are rewritten together, how large, in which order
    `retention`       cleaning and archival
    `services`        upkeep in general, and what becomes of a stuck plan
    `hudi_keys`       keys of Apache Hudi that hoodoo does not honour, and what it does with each
    `check`           warns about keys without effect, refuses keys that would change a write

A new key is a `Key` constant in the module of its area. `keys_of` collects the constants, so
`ALL_KEYS` and the reference page have it at once; if `hudi_keys` lists the name, delete it there.

In: options as text or plain values. Out: typed values (the get method of `Config`).
Not here: reading hoodie.properties (table/properties), options against a table (table/options).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hoodoo.config import (
    clustering,
    compaction,
    concurrency,
    index,
    metadata_table,
    retention,
    services,
    table,
    write,
)
from hoodoo.config import key as options
from hoodoo.config.key import Key


def keys_of(module: ModuleType) -> tuple[Key[Any], ...]:
    """The keys that a module defines, in its order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Key))


AREAS: dict[str, tuple[Key[Any], ...]] = {
    "Table properties": keys_of(table),
    "Writing": keys_of(write),
    "Indexes": keys_of(index),
    "Metadata table": keys_of(metadata_table),
    "Many writers": keys_of(concurrency),
    "Table services": keys_of(services),
    "Compaction": keys_of(compaction),
    "Clustering": keys_of(clustering),
    "Cleaning and archival": keys_of(retention),
    "Options themselves": keys_of(options),
}
ALL_KEYS: tuple[Key[Any], ...] = tuple(key for keys in AREAS.values() for key in keys)
KEY_BY_NAME: dict[str, Key[Any]] = {
    name: key for key in ALL_KEYS for name in (key.name, *key.aliases)
}
