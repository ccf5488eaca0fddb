"""`hoodie.properties` on storage: how it is read while someone may be rewriting it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from hoodoo.config.table import table_properties
from hoodoo.errors import ConfigError, FormatError, NoSuchTable, ObjectNotFound, add_error_source
from hoodoo.format import properties as codec
from hoodoo.model import paths
from hoodoo.model.coordination import PROPERTIES_DECISION
from hoodoo.model.table import TableProperties
from hoodoo.runtime.env import Env

_ATTEMPTS = 4
_PAUSE_S = 0.1


def load_properties(env: Env) -> TableProperties:
    """The table's properties; while a writer replaces the file, those of its backup."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            env.clock.sleep(_PAUSE_S)
        for path in (paths.PROPERTIES, paths.PROPERTIES_BACKUP):
            try:
                data = env.storage.read(path)
            except ObjectNotFound:
                continue
            return decode_properties(data, source=path)
        if not any(True for _ in env.storage.list(paths.META)):
            break  # nothing there at all: not a table, and nobody is about to rename
    raise NoSuchTable(env.storage.uri)


def decode_properties(data: bytes, *, source: str) -> TableProperties:
    """Typed properties of a file's bytes; whatever is wrong with them names the file."""
    with add_error_source(source):
        return _decode(data)


@lru_cache(maxsize=16)  # a write reads them several times, and they hardly ever change
def _decode(data: bytes) -> TableProperties:
    raw = codec.parse(data)
    codec.verify(raw)
    try:
        return table_properties(raw)
    except ConfigError as error:
        raise FormatError(str(error)) from None


def read_properties(env: Env) -> bytes:
    """`hoodie.properties` as it is, to be changed.

    Needs: the table's lock. Restores what a writer that died left in the backup.
    """
    storage = env.storage
    if storage.exists(paths.PROPERTIES_BACKUP):
        if not storage.exists(paths.PROPERTIES):
            storage.create(paths.PROPERTIES, storage.read(paths.PROPERTIES_BACKUP))
        storage.delete(paths.PROPERTIES_BACKUP)
    return storage.read(paths.PROPERTIES)


def build_changed_properties(
    present: bytes, changes: Mapping[str, str | None], *, decision: int, now_ms: int
) -> bytes:
    """The file with some properties changed, by this decision; None removes a key."""
    raw = dict(decode_properties(present, source=paths.PROPERTIES).raw)
    for key, value in {**changes, PROPERTIES_DECISION: str(decision)}.items():
        raw.pop(key, None)
        if value is not None:
            raw[key] = value
    raw[codec.CHECKSUM_KEY] = str(codec.checksum(raw))
    data = codec.serialise(raw, comment=codec.updated_at(now_ms))
    decode_properties(data, source=paths.PROPERTIES)  # what cannot be read is not written
    return data
