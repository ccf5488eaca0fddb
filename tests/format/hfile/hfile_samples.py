"""HFiles that HBase and Apache Hudi wrote, from the fixtures; and opening bytes as a file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hoodoo.format.hfile import HUDI_1_1, Dialect, HFileReader, write_hfile
from hoodoo.format.log import BlockType, read_blocks

OWN_INFO = (b"schema", b"bloomFilterTypeCode", b"minRecordKey", b"maxRecordKey")


def open_bytes(data: bytes, **options) -> HFileReader:
    return HFileReader(lambda start, length: data[start : start + length], len(data), **options)


def recorded(data: bytes) -> tuple[Callable[[int, int], bytes], list[tuple[int, int]]]:
    """A function that reads, and the list of what it was asked for."""
    asked: list[tuple[int, int]] = []

    def read(start: int, length: int) -> bytes:
        asked.append((start, length))
        return data[start : start + length]

    return read, asked


@cache
def hbase_files(fixtures: Path) -> dict[str, bytes]:
    """The single HFiles, of HBase and Hudi 1.0, by name."""
    return {path.name: path.read_bytes() for path in sorted((fixtures / "hfile").glob("*.hfile"))}


@cache
def metadata_files(fixtures: Path) -> dict[str, bytes]:
    """Base and log files of the fixtures' metadata tables."""
    found = {}
    for table in sorted((fixtures / "tables").glob("*/*.zip")):
        with zipfile.ZipFile(table) as archive:
            for name in archive.namelist():
                base = name.rpartition("/")[2]
                is_data = base.endswith(".hfile") or (base.startswith(".") and ".log." in base)
                is_debris = base.startswith("._") or base.endswith(".crc")
                if "/.hoodie/metadata/" in name and is_data and not is_debris:
                    found[f"{table.parent.name}/{name}"] = archive.read(name)
    return found


def hudi_hfiles(fixtures: Path) -> dict[str, bytes]:
    """Every HFile that Apache Hudi's own writer wrote: base files and those inside log files."""
    found = {}
    for name, data in metadata_files(fixtures).items():
        if name.endswith(".hfile"):
            found[name] = data
        else:
            for block in read_blocks(data).blocks:
                if block.type is BlockType.HFILE_DATA:
                    found[f"{name}@{block.offset}"] = bytes(block.content)
    return found


def written_again(data: bytes, *, dialect: Dialect = HUDI_1_1, block_size: int = 1 << 20) -> bytes:
    """What our writer makes of the entries, meta blocks and facts of a file."""
    reader = open_bytes(data)
    entries, info = reader.read_all(), reader.file_info
    bloom = reader.meta_block("bloomFilter")
    return write_hfile(
        entries.keys,
        entries.values,
        block_size=block_size,
        meta={} if bloom is None else {b"bloomFilter": bloom},
        info={key: info[key] for key in OWN_INFO if key in info},
        created_ms=int.from_bytes(info[b"hfile.CREATE_TIME_TS"], "big"),
        dialect=dialect,
    )
