"""Damaged files: every outcome is a typed error that names a file, or rows; nothing else.

Each mutation damages one file of a table that Apache Hudi wrote (cut, flipped bits, emptied,
replaced by another file, stretched, spliced) and reads the table again. A read that succeeds must
give the same rows, except where nothing on disk can tell: see `undetectable`.
"""

from __future__ import annotations

import os
import random
import zipfile
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.fixtures import FIXTURES, fixture_tables

from hoodoo.errors import FormatError, HoodooError, InputError
from hoodoo.format import properties
from hoodoo.format import properties as partition_metadata
from hoodoo.format.hfile import HFileReader
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.data import decode_data, decode_hfile
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.parquet.base_file import footer_bytes
from hoodoo.format.timeline import history
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.names import parse_instant
from hoodoo.read.scan import scan
from hoodoo.runtime.engine import LocalEngine
from hoodoo.storage import open_storage
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.slow

TABLE_MUTATIONS = int(os.environ.get("HOODOO_FUZZ_TABLE", "100"))  # of each table
CODEC_MUTATIONS = int(os.environ.get("HOODOO_FUZZ_CODEC", "16"))  # of each metadata or log file
SEED = int(os.environ.get("HOODOO_FUZZ_SEED", "20261116"))

ENGINE = LocalEngine(threads=1)
totals: Counter[str] = Counter()


def files_of(name: str) -> dict[str, bytes]:
    kind, stem = name.split("/")
    with zipfile.ZipFile(FIXTURES / "tables" / kind / f"{stem}.zip") as archive:
        return {
            entry.filename.partition("/")[2]: archive.read(entry)
            for entry in archive.infolist()
            if entry.filename.startswith(f"{stem}/")
            and not entry.is_dir()
            and not entry.filename.endswith(".crc")
        }


def mutated(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """One piece of damage."""
    kind = chance.choice(("cut", "flip", "flips", "empty", "foreign", "grow", "splice", "ints"))
    if not data and kind != "foreign":
        return chance.randbytes(chance.randint(1, 40))
    at = chance.randrange(len(data)) if data else 0
    match kind:
        case "cut":
            return data[:at]
        case "flip":
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case "flips":
            damaged = bytearray(data)
            for _ in range(chance.randint(2, 12)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            return bytes(damaged)
        case "empty":
            return b""
        case "foreign":
            return chance.choice(others)
        case "grow":
            return data + chance.randbytes(chance.randint(1, 64))
        case "splice":
            start, end = sorted((at, chance.randrange(len(data))))
            return data[:start] + data[end:]
        case _:
            extreme = chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0" * 8))
            return data[:at] + extreme + data[at + len(extreme) :]


def damaged_rows(uri: str) -> pa.Table | HoodooError:
    """What a user gets; anything but rows or a typed error passes through and fails the test."""
    try:
        return scan(open_ref(uri), ENGINE)
    except HoodooError as raised:
        error = raised
    assert "\n" not in str(error), error
    assert not isinstance(error, FormatError) or error.source, f"no file named: {error!r}"
    assert not isinstance(error, InputError), error
    return error


@pytest.mark.parametrize("name", fixture_tables())
def test_whole_tables(name: str) -> None:
    chance = random.Random(f"{SEED} {name}")
    contents = files_of(name)
    uri = f"memory://fuzz-{name.replace('/', '-')}"
    storage = open_storage(uri, {})
    for path, data in contents.items():
        storage.put(path, data)
    sound = damaged_rows(uri)
    assert isinstance(sound, pa.Table)
    paths = [path for path in contents if not path.startswith(".hoodie/metadata/")]
    others = list(contents.values())
    for _ in range(TABLE_MUTATIONS):
        path = chance.choice(paths)
        damage = mutated(contents[path], others, chance)
        storage.put(path, damage)
        outcome = damaged_rows(uri)
        storage.put(path, contents[path])
        totals["table reads"] += 1
        if not isinstance(outcome, pa.Table):
            totals["typed errors"] += 1
        elif outcome.equals(sound):
            totals["same rows"] += 1
        else:
            known = undetectable(name, path, contents[path], damage, others)
            assert known, f"silently other rows: {path}"
            totals["other rows"] += 1


def undetectable(name: str, path: str, sound: bytes, damage: bytes, others: list[bytes]) -> bool:
    """Damage that the format gives no means to see.

    A base file replaced by another sound one, or with another footer (pages have checksums,
    footers have none); a commit that says something else, and says it well (Avro has none
    either); version 6, where commits are plain JSON, half a log block is
    what a crash leaves, and pages have no checksums; the properties of a table without commits,
    whose schema nothing else tells, and the one that says that meta columns are not filled.
    """
    if path.endswith(".parquet"):
        footers = [footer_bytes(pa.BufferReader(data)) for data in (sound, damage)]
        return damage in others or footers[0] != footers[1] or "/v6_" in name
    instant = parse_instant(path.rpartition("/")[2], layout=2)
    if instant is not None and instant.is_completed and damage:
        return codec.decode(damage, instant.action, instant.state) is not None
    if path.endswith("hoodie.properties"):
        meta = [
            properties.parse(data).get("hoodie.populate.meta.fields") for data in (sound, damage)
        ]
        return name.endswith("_empty") or meta[0] != meta[1] or "/v6_" in name
    return "/v6_" in name


def decode_file(path: str, data: bytes) -> None:
    """Decode one file by what its name says, as readers do."""
    name = path.rpartition("/")[2]
    if name == "hoodie.properties":
        properties.verify(properties.parse(data))
    elif name == ".hoodie_partition_metadata":
        partition_metadata.decode(data)
    elif ".log." in name:
        for block in read_blocks(data).blocks:
            if block.type is BlockType.DELETE:
                decode_deletes(block)
            elif block.type is BlockType.HFILE_DATA:
                decode_hfile(block)
            elif block.type is not BlockType.COMMAND:
                decode_data(block)
    elif name.endswith(".hfile"):
        HFileReader(lambda start, length: data[start : start + length], len(data)).read_all()
    else:
        instant = parse_instant(name, layout=2) or parse_instant(name, layout=1)
        assert instant is not None
        codec.decode(data, instant.action, instant.state)


def metadata_files() -> Iterator[tuple[str, bytes]]:
    for name in fixture_tables():
        for path, data in files_of(name).items():
            file = path.rpartition("/")[2]
            named = file in ("hoodie.properties", ".hoodie_partition_metadata") or ".log." in file
            named = named or file.endswith(".hfile")
            if named or ("/metadata/" not in path and parse_instant(file, layout=2)):
                yield path, data


def test_codecs() -> None:
    chance = random.Random(SEED)
    files = list(metadata_files())
    others = [data for _, data in files[::7]]
    for path, data in files:
        for _ in range(CODEC_MUTATIONS):
            damage = mutated(data, others, chance)
            totals["codec reads"] += 1
            try:
                decode_file(path, damage)
            except HoodooError:
                totals["codec errors"] += 1


def test_archived_timeline() -> None:
    chance = random.Random(SEED)
    manifest = b'{"files":[{"fileName":"001_002_0.parquet","fileLen":12}]}'
    for _ in range(500):
        damage = mutated(manifest, [b"{}", b"[]"], chance)
        totals["codec reads"] += 1
        for decode in (history.decode_manifest, history.decode_version, history.decode_instants):
            try:
                decode(damage)
            except HoodooError:
                totals["codec errors"] += 1


def test_enough_was_tried(request: pytest.FixtureRequest) -> None:
    """Runs last in this file (same worker): the figures, for people."""
    print("\nfuzz:", dict(totals))
    alone = totals["table reads"] and totals["codec reads"]
    if alone:
        assert totals["table reads"] + totals["codec reads"] >= 20_000
        assert totals["typed errors"] > totals["table reads"] / 20  # most files are not read
