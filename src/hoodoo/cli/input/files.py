"""Files to load: which they are, and whether they are there, looked at before anything starts.

Places that only Spark can read (other file systems, directories of directories) are left to it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote

import typer

from hoodoo.errors import InputError


class Format(Enum):
    """What the files are."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


_BY_EXTENSION = {
    ".parquet": Format.PARQUET,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
COMPRESSION_SUFFIXES = {".gz", ".bz2", ".zst", ".snappy", ".lz4"}
"""Extensions of packed files."""


@dataclass(frozen=True, slots=True)
class Input:
    """What is to be loaded. `files` is empty where only Spark can tell what there is."""

    place: str
    format: Format
    files: tuple[Path, ...] = ()


def find_input(source: str, format: Format | None) -> Input:
    """The files of a path; `InputError` if there are none, or they cannot be read."""
    if source.startswith("file://"):
        source = unquote(source.removeprefix("file://"))
    if "://" in source:
        return Input(source, format or _format_of(source, [Path(source)]))
    place = Path(os.path.abspath(source))
    files = _list_files(place)
    kind = format or _format_of(source, [place, *files])
    directories = [path for path in files if path.is_dir()]
    for path in files if not directories else ():
        try:
            with path.open("rb") as file:
                file.read(1)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return Input(str(place), kind, () if directories else tuple(files))


def _list_files(place: Path) -> list[Path]:
    """What a path stands for: itself, all that is visible in a directory, or by a pattern."""
    if place.is_dir():
        try:
            paths = sorted(place.iterdir())
        except OSError as error:
            raise InputError(f"{place} cannot be read: {error.strerror}") from None
        paths = [path for path in paths if not path.name.startswith(("_", "."))]
    elif place.exists():
        paths = [place]
    else:
        paths = [Path(name) for name in sorted(glob.glob(str(place)))]
        if not paths:
            raise InputError(f"{place} does not exist")
    if not paths:
        raise InputError(f"{place} holds no files")
    return paths


def _format_of(source: str, names: Sequence[Path]) -> Format:
    """By the extension of a file, or of the files in a directory."""
    for name in names:
        extensions = [
            suffix.lower() for suffix in name.suffixes if suffix not in COMPRESSION_SUFFIXES
        ]
        if extensions and extensions[-1] in _BY_EXTENSION and not name.name.startswith(("_", ".")):
            return _BY_EXTENSION[extensions[-1]]
    raise typer.BadParameter(
        f"cannot tell the format of {source!r} by its name", param_hint="--format"
    )
