"""Metadata files out of the fixture tables, and examples out of the documentation's pages."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import fastavro

from hoodoo.model.instant import Instant
from hoodoo.model.names import parse_instant

PAGES = Path(__file__).resolve().parents[2] / "docs" / "format"


@cache
def _members(fixtures: Path) -> tuple[tuple[str, bytes], ...]:
    """Every file under a `.hoodie` folder (a metadata table's own included) in every table."""
    found = []
    for table in sorted((fixtures / "tables").glob("*/*.zip")):
        with zipfile.ZipFile(table) as archive:
            for name in archive.namelist():
                parts = name.split("/")
                if ".hoodie" in parts and parts[-1] and not parts[-1].startswith("._"):
                    found.append((f"{table.parent.name}/{name}", archive.read(name)))
    return tuple(found)


def timeline_files(fixtures: Path) -> Iterator[tuple[str, Instant, bytes]]:
    """Each timeline file: where it is, the instant of its name, its bytes."""
    for path, data in _members(fixtures):
        folder, name = path.split("/")[-2:]
        if folder in (".hoodie", "timeline"):
            instant = parse_instant(name, layout=2 if folder == "timeline" else 1)
            if instant is not None:
                yield path, instant, data


def files_named(fixtures: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Each file of one name."""
    for path, data in _members(fixtures):
        if path.endswith(f"/{name}"):
            yield path, data


def is_container(data: bytes) -> bool:
    return data.startswith(b"Obj\x01")


def split_container(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Schema, sync marker and record of a container with one record, without our reader."""
    metadata = fastavro.reader(BytesIO(data)).metadata
    assert list(metadata) == ["avro.schema"]
    sync = data[-16:]
    block = data[data.index(sync) + 16 : -16]
    assert block[0] == 2  # one record
    size_bytes = next(n for n in range(1, 10) if block[n] < 0x80)
    return metadata["avro.schema"].encode(), sync, block[1 + size_bytes :]


def example(page: str, language: str, *, nth: int = 0) -> str:
    """The nth fenced block of a language on a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[nth]


def example_bytes(page: str) -> bytes:
    """The page's hexadecimal example, without its remarks."""
    lines = example(page, "hex").splitlines()
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in lines))
