"""Table URIs, and the paths below them.

    /data/trips   trips   file:///data/trips      a directory of this machine
    memory://NAME[/path]                          a named store of this process
    s3://bucket/path                              also s3a, s3n
    gs://bucket/path                              also gcs
    az://container/path                           also azure; the account comes from the options
    abfss://container@account.host/path           also abfs

Nothing is percent-decoded: like Hadoop, and unlike browsers, `%20` in a URI is those three
characters in the name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from hoodoo.errors import ConfigError, InputError, StorageError, UnusablePath

PathText: TypeAlias = str | os.PathLike[str]
"""How users name a place: a path or URI as text, or a path object."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BAD_SEGMENTS = frozenset({"", ".", ".."})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "abfs": "abfss"}
_OBJECT_SCHEMES = ("s3", "gs", "az", "abfss")


@dataclass(frozen=True, slots=True)
class TableUri:
    """A table's place, in its one normal form: `str` gives the URI."""

    scheme: str
    place: str
    """Bucket, container, or the memory store's name; empty for files."""
    path: str
    """Below `place`, without slashes at its ends; for files the absolute path."""

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file://{self.path}"
        return f"{self.scheme}://{self.place}" + (f"/{self.path}" if self.path else "")


def path_text(path: object) -> str:
    """What a user gave as a table's path, as text."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise InputError(f"a table's path is a str or an os.PathLike, not {type(path).__name__}")
    return text


def parse_uri(uri: str) -> TableUri:
    """The place that a plain path or URI means. Raises `ConfigError`."""
    if not uri or "\0" in uri or not is_text(uri):
        raise _make_config_error(uri, "not a path or URI")
    match = _SCHEME.match(uri)
    if match is None:
        return _file(uri, uri.removeprefix("file:"))
    scheme = match[1].lower()
    scheme = _ALIASES.get(scheme, scheme)
    rest = uri[match.end() :]
    if scheme == "file":
        return _file(uri, rest.removeprefix("localhost"))
    if scheme != "memory" and scheme not in _OBJECT_SCHEMES:
        raise _make_config_error(uri, f"unknown scheme {scheme!r}")
    place, _, path = rest.partition("/")
    path = path.rstrip("/")
    if not place or (scheme == "abfss") != ("@" in place):
        place_form = "container@account.host" if scheme == "abfss" else "a name"
        raise _make_config_error(uri, f"{place_form} must follow {scheme}://")
    if path and _has_bad_segment(path):
        raise _make_config_error(uri, "empty, '.' and '..' are no path segments")
    return TableUri(scheme, place, path)


@lru_cache(maxsize=1 << 12)  # asked before each operation, for the same few paths
def check_path(path: str) -> str:
    """`path` if it can name an object below a base path. Raises `UnusablePath`."""
    if not path or "\0" in path or _has_bad_segment(path) or not is_text(path):
        raise UnusablePath(repr(path), "not a relative path of an object")
    return path


def check_directory(prefix: str) -> str:
    """`prefix` if it can name a directory below a base path, "" the base. As `check_path`."""
    return check_path(prefix) if prefix else prefix


def check_range(path: str, start: int, length: int | None) -> None:
    """Refuse a range that no object can have."""
    if start < 0 or (length is not None and length < 0):
        raise StorageError(path, f"no such range: {length} bytes from {start}")


def check_object_path(path: str) -> str:
    """`path` if it can name an object of a cloud's store, too. As `check_path`."""
    if has_control_characters(path):
        raise UnusablePath(repr(path), "control characters cannot be in a path there")
    return check_path(path)


def check_object_directory(prefix: str) -> str:
    """`prefix` if it can name a directory of a cloud's store. As `check_object_path`."""
    return check_object_path(prefix) if prefix else prefix


def has_control_characters(path: str) -> bool:
    """Whether ASCII control characters are in it; obstore takes none."""
    return _CONTROL.search(path) is not None


def is_text(name: str) -> bool:
    """Whether a name is UTF-8: others (of foreign files) cannot be paths in any store."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _file(uri: str, path: str) -> TableUri:
    if not path or (uri.lower().startswith("file:") and not path.startswith("/")):
        raise _make_config_error(uri, "a file URI needs an absolute path and no host")
    # abspath keeps two leading slashes, which POSIX lets mean something special.
    return TableUri("file", "", "/" + os.path.abspath(path).lstrip("/"))


def _has_bad_segment(path: str) -> bool:
    return not _BAD_SEGMENTS.isdisjoint(path.split("/"))


def _make_config_error(uri: str, reason: str) -> ConfigError:
    return ConfigError(key="uri", value=uri, reason=reason)
