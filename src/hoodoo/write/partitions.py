"""Partition paths that cannot be used are refused before files are made there."""

from __future__ import annotations

from collections.abc import Iterable

from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.errors import InputError
from hoodoo.model.keys import KeyRule
from hoodoo.model.paths import META, PARTITION_METADATA
from hoodoo.storage.uri import has_control_characters, parse_uri
from hoodoo.table.ref import TableRef

_MOST_NAME_BYTES = 255
_MOST_FILE_BYTES = 4095
_MOST_OBJECT_BYTES = 1024
_OTHER_BYTES = 200
"""Of the path of a marker: `.hoodie/.temp`, the instant, the name of the data file."""


def refuse_unusable_partitions(ref: TableRef, partitions: Iterable[str]) -> None:
    """Fail if rows of one of these partitions could not be stored, or would never be read."""
    for path in partitions:
        reason = _unusable(ref, path)
        if reason is not None:
            raise InputError(_message(ref.properties.keys, path, reason))


def _unusable(ref: TableRef, path: str) -> str | None:
    names, place = path.split("/"), parse_uri(ref.uri)
    if any(name == META or name.startswith(PARTITION_METADATA) for name in names):
        return "a directory name in it is one that the table keeps for itself"
    if "\0" in path:
        return "it has the character NUL"
    if ref.config.get(MARKER_TYPE) is not MarkerType.DIRECT and ("\n" in path or "\r" in path):
        return f"it has a line break, which only {MARKER_TYPE.name}=direct can do with"
    if place.scheme == "memory":
        return None
    if place.scheme == "file":
        if max(map(_size, names)) > _MOST_NAME_BYTES:
            return f"a directory name has at most {_MOST_NAME_BYTES} bytes"
        most = _MOST_FILE_BYTES
    else:
        if has_control_characters(path):
            return "it has control characters, which the store refuses"
        most = _MOST_OBJECT_BYTES
    if path and _size(place.path) + _size(path) + _OTHER_BYTES > most:
        return f"a file there would have a path of more than {most} bytes"
    return None


def _message(keys: KeyRule, path: str, reason: str) -> str:
    shown = repr(path if len(path) <= 100 else f"{path[:100]}...")
    fields = ",".join(keys.partition_fields)
    advice = ""
    if has_control_characters(path) and not keys.url_encode:
        advice = "; create the table with hoodie.datasource.write.partitionpath.urlencode=true"
    elif not keys.hive_style and META in path:
        advice = "; create the table with hoodie.datasource.write.hive_style_partitioning=true"
    return f"partition path {shown} (of {fields}) cannot be used: {reason}{advice}"


def _size(text: str) -> int:
    return len(text.encode())
