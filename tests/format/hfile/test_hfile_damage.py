"""Damaged HFiles: the right answer, or a typed error; nothing else."""

from __future__ import annotations

import os
import random
from collections import Counter

import pyarrow as pa
import pytest
from hfile_samples import hbase_files, hudi_hfiles, open_bytes

from hoodoo.errors import FormatError
from hoodoo.format.hfile import Entries, HFileCodec, write_hfile

MUTATIONS = int(os.environ.get("HOODOO_FUZZ_CODEC", "16"))
SEED = int(os.environ.get("HOODOO_FUZZ_SEED", "20261116"))


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One piece of damage; half of them near the end, where index and trailer are."""
    at = chance.randrange(len(data))
    if chance.random() < 0.5:
        at = max(0, len(data) - 4096 - 900 + chance.randrange(1100))
    match chance.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 2:
            extreme = chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(8)))
            return data[:at] + extreme + data[at + len(extreme) :]
        case 3:
            return data[:at] + data[at + chance.randint(1, 200) :]
        case _:
            return data + chance.randbytes(chance.randint(1, 64))


def outcome(data: bytes, wanted: pa.Array) -> tuple[Entries, Entries] | FormatError:
    try:
        reader = open_bytes(data)
        return reader.read_all(), reader.find(wanted)
    except FormatError as error:
        return error


def mutate(data: bytes, count: int, chance: random.Random, *, strict: bool) -> Counter[str]:
    everything = open_bytes(data).read_all()
    wanted = everything.keys[::7]
    sound = outcome(data, wanted)
    totals: Counter[str] = Counter()
    for _ in range(count):
        found = outcome(damaged(data, chance), wanted)
        if isinstance(found, FormatError):
            totals["errors"] += 1
        else:
            totals["same" if found == sound else "other"] += 1
    assert not (strict and totals["other"])
    return totals


@pytest.mark.slow
def test_damage_to_hudis_files_is_seen(fixtures):
    chance = random.Random(SEED)
    totals: Counter[str] = Counter()
    for data in hudi_hfiles(fixtures).values():
        totals += mutate(data, MUTATIONS, chance, strict=True)
    assert totals["errors"] > totals.total() / 3


def test_damage_to_hbases_files_is_seen(fixtures):
    chance = random.Random(SEED)
    for data in hbase_files(fixtures).values():
        assert mutate(data, 4 * MUTATIONS, chance, strict=True)["errors"]


@pytest.mark.parametrize("block_size", [300, 1 << 16])
def test_damage_that_nothing_can_see_raises_nothing_else(block_size):
    keys = pa.array([b"%06d" % number for number in range(900)], pa.binary())
    data = write_hfile(keys, keys, codec=HFileCodec.NONE, block_size=block_size)
    totals = mutate(data, 40 * MUTATIONS, random.Random(SEED), strict=False)
    assert totals["errors"]
    assert totals["other"]  # without compression or checksums a value may change
