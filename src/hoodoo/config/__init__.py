"""The keys that hoodoo honours; `ALL_KEYS` feeds the reference page."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hoodoo.config import (
    clustering,
    compaction,
    concurrency,
    early,
    index,
    markers,
    metadata,
    options,
    services,
    table,
    tasks,
    upkeep,
    write,
)
from hoodoo.config.key import Key


def keys_of(module: ModuleType) -> tuple[Key[Any], ...]:
    """The keys that a module defines, in its order."""
    return tuple(value for value in vars(module).values() if isinstance(value, Key))


AREAS: dict[str, tuple[Key[Any], ...]] = {
    "Table properties": keys_of(table),
    "Writing": keys_of(write),
    "Indexes": keys_of(index),
    "Metadata table": keys_of(metadata),
    "Distributed writes": keys_of(tasks),
    "Many writers": keys_of(concurrency),
    "Early conflict detection": keys_of(early),
    "Marker server": keys_of(markers),
    "Table services": keys_of(services),
    "Compaction": keys_of(compaction),
    "Clustering": keys_of(clustering),
    "Cleaning and archival": keys_of(upkeep),
    "Options themselves": keys_of(options),
}
ALL_KEYS: tuple[Key[Any], ...] = tuple(key for keys in AREAS.values() for key in keys)
KEY_BY_NAME: dict[str, Key[Any]] = {
    name: key for key in ALL_KEYS for name in (key.name, *key.aliases)
}
