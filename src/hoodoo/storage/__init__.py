"""Storage of one table: a few atomic verbs, the same on disk, in memory and on object stores.

Read in this order:
    `storage`             the protocol `Storage`: list, read, create, put, replace, delete, ...
    `uri`                 table URIs and checks of paths
    `local`               directories of this machine
    `memory`              named stores in this process, for tests and simulations
    `object_store`        S3, Google Cloud Storage and Azure
    `object_client`       clients of object stores: retries, errors, advice
    `write_streams`       large new objects, gathered on disk or in memory before the upload
    `conditional_writes`  refuses a store that ignores If-Match and If-None-Match
    `traced`              any storage, with a record of its operations

In: a table URI and options (`open_storage`). Out: a `Storage`; every path is relative to the table.
Each verb happens whole or not at all. If a write gets no answer, the store raises `OutcomeUnknown`
and does not repeat the write; runtime/lost_answers finds out what happened.
Not here: what a path means (model/paths), when a file may be deleted (services, recovery).
A new store must pass hoodoo_testing/storage_contract.
"""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.errors import ConfigError
from hoodoo.storage.conditional_writes import probe_conditions
from hoodoo.storage.storage import Storage
from hoodoo.storage.uri import parse_uri

__all__ = ["open_storage", "probe_conditions"]


def open_storage(
    uri: str, options: Mapping[str, str] | None = None, *, upload_limit_s: float | None = None
) -> Storage:
    """The store below `uri`; `options` are the object store client's own (`aws_region`, ...).

    `upload_limit_s`: how long an object store may take for a large object; a disk has no uploads.
    Opens no connection and checks no existence. Raises `ConfigError`.
    """
    place = parse_uri(uri)
    options = options or {}
    # The stores are imported when asked for: a local table needs no object store client.
    if place.scheme not in ("file", "memory"):
        from hoodoo.storage.object_store import ObjectStorage

        return ObjectStorage(place, options, upload_limit_s=upload_limit_s)
    for key in options:
        reason = f"{place.scheme} storage has no options"
        raise ConfigError(key=key, value="...", reason=reason)
    if place.scheme == "memory":
        from hoodoo.storage.memory import MemoryStorage

        return MemoryStorage(place.place, place.path)
    from hoodoo.storage.local import LocalStorage

    return LocalStorage(place.path)
