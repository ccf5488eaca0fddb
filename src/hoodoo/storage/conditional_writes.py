"""The question a writer asks an object store before it trusts it: do you honour conditions?"""

from __future__ import annotations

import threading
import uuid

from hoodoo.errors import ObjectExists, PreconditionFailed, StorageError
from hoodoo.model.paths import PROBES
from hoodoo.storage.storage import Storage

_BY_CONSTRUCTION = ("file://", "memory://")

_verified_stores: set[str] = set()
_lock = threading.Lock()


def probe_conditions(storage: Storage) -> None:
    """Refuse a store that ignores If-None-Match or If-Match: two writers would both win there.

    For writers; asks once per table and process, and leaves nothing behind.
    Order: create, create again, replace, replace with the stale etag, delete, of a new object.
    Crash: a few bytes among the probes, read by nobody; sweep takes them.
    """
    if storage.uri.startswith(_BY_CONSTRUCTION):
        return
    with _lock:
        if storage.uri in _verified_stores:
            return
        path = f"{PROBES}/{uuid.uuid4()}"
        try:
            _probe(storage, path)
        finally:
            storage.delete(path)
        _verified_stores.add(storage.uri)


def _probe(storage: Storage, path: str) -> None:
    first = storage.create(path, b"1")
    try:
        storage.create(path, b"2")
    except ObjectExists:
        pass
    else:
        raise _refusal(storage, "a create over an existing object went through (If-None-Match)")
    storage.replace(path, b"3", if_match=first.etag)
    try:
        storage.replace(path, b"4", if_match=first.etag)
    except PreconditionFailed:
        pass
    else:
        raise _refusal(storage, "a replace of an outdated version went through (If-Match)")
    if storage.read(path) != b"3":
        raise _refusal(storage, "a refused write changed the object")


def _refusal(storage: Storage, reason: str) -> StorageError:
    return StorageError(
        storage.uri, f"this store ignores conditions on writes, so it is not safe: {reason}"
    )
