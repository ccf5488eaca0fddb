"""Zip archives on `sys.path` are read again when they changed, and only then."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodoo.spark.session.workers import keep_directories


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An archive on the path, whose directory is known."""
    place = tmp_path / "modules.zip"
    _pack(place, ["first_zipped"])
    unpatched = zipimport.zipimporter.invalidate_caches
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", unpatched)
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    importlib.import_module("first_zipped")
    keep_directories()
    yield place
    for name in ("first_zipped", "second_zipped"):
        sys.modules.pop(name, None)
    sys.path_importer_cache.pop(str(place), None)


def _pack(place: Path, names: list[str]) -> None:
    with zipfile.ZipFile(place, "w") as file:
        for name in names:
            file.writestr(f"{name}.py", f"NAME = {name!r}")


def test_changed_archive_is_read_again(archive: Path) -> None:
    _pack(archive, ["first_zipped", "second_zipped"])
    importlib.invalidate_caches()
    assert importlib.import_module("second_zipped").NAME == "second_zipped"


def test_archive_that_comes_back_is_read_again(archive: Path) -> None:
    content = archive.read_bytes()
    archive.unlink()
    importlib.invalidate_caches()
    del sys.modules["first_zipped"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("first_zipped")
    archive.write_bytes(content)
    importlib.invalidate_caches()
    assert importlib.import_module("first_zipped").NAME == "first_zipped"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python reads what is asked for")
def test_unchanged_archive_is_not_read_again(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read = zipimport._read_directory  # type: ignore[attr-defined]  # no part of the interface

    def counted(path: str) -> object:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(zipimport, "_read_directory", counted)
    importlib.invalidate_caches()
    assert str(archive) not in reads
    _pack(archive, ["first_zipped", "second_zipped"])
    importlib.invalidate_caches()
    assert reads.count(str(archive)) == 1
