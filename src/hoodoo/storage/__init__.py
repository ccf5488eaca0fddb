"""Storage of one table: where its files are, whatever the store."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.errors import ConfigError
from hoodoo.storage.probe import probe_conditions
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
        from hoodoo.storage.objects import ObjectStorage

        return ObjectStorage(place, options, upload_limit_s=upload_limit_s)
    for key in options:
        reason = f"{place.scheme} storage has no options"
        raise ConfigError(key=key, value="...", reason=reason)
    if place.scheme == "memory":
        from hoodoo.storage.memory import MemoryStorage

        return MemoryStorage(place.place, place.path)
    from hoodoo.storage.local import LocalStorage

    return LocalStorage(place.path)
