"""The metadata tables inside the fixture tables, block by block."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from hoodoo.format.hfile import HFileReader
from hoodoo.format.log import BlockType, decode_deletes, read_blocks
from hoodoo.model.files import BaseFile, parse_data_file
from support.fixtures import FIXTURES, fixture_tables

INSIDE = ".hoodie/metadata/"


@dataclass(frozen=True)
class Piece:
    """A base file, or a block of a log file: its entries, and the keys that it deletes."""

    partition: str
    file_name: str
    file_id: str
    instant_time: str
    is_base: bool
    keys: pa.Array
    values: pa.Array
    deleted: pa.Array
    schema_json: str | None


@cache
def table_files(table: str) -> dict[str, int]:
    """Every file of a fixture table, relative to the table, with its size."""
    name = table.split("/")[1]
    with zipfile.ZipFile(FIXTURES / "tables" / f"{table}.zip") as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
    return {info.filename.removeprefix(f"{name}/"): info.file_size for info in infos}


def with_metadata() -> list[str]:
    """The fixture tables that have a metadata table."""
    return [one for one in fixture_tables() if any(n.startswith(INSIDE) for n in table_files(one))]


@cache
def pieces_of(table: str) -> list[Piece]:
    """All that a fixture's metadata table holds."""
    name = table.split("/")[1]
    with zipfile.ZipFile(FIXTURES / "tables" / f"{table}.zip") as archive:
        made: list[Piece] = []
        for path in sorted(table_files(table)):
            if path.startswith(INSIDE) and not path.startswith(f"{INSIDE}.hoodie"):
                made += _pieces(path, archive.read(f"{name}/{path}"))
    return made


def _pieces(path: str, data: bytes) -> Iterator[Piece]:
    partition, _, file_name = path.removeprefix(INSIDE).rpartition("/")
    file = parse_data_file(partition, file_name, len(data))
    if file is None:
        return
    none = pa.array([], pa.large_binary())
    if isinstance(file, BaseFile):
        keys, values, schema = _entries(data)
        time = file.name.requested_time
        yield Piece(partition, file_name, file.name.file_id, time, True, keys, values, none, schema)
        return
    for block in read_blocks(data).blocks:
        keys, values, deleted, schema = none, none, none, None
        if block.type is BlockType.HFILE_DATA:
            keys, values, schema = _entries(bytes(block.content))
            assert schema == block.schema_json
        else:
            deleted = decode_deletes(block)["record_key"].combine_chunks()
        time = block.instant_time
        file_id = file.name.file_id
        yield Piece(partition, file_name, file_id, time, False, keys, values, deleted, schema)


def _entries(data: bytes) -> tuple[pa.Array, pa.Array, str]:
    reader = HFileReader(lambda at, size: data[at : at + size], len(data))
    entries = reader.read_all()
    return entries.keys, entries.values, reader.file_info[b"schema"].decode()
