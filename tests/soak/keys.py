"""Which keys a write takes, and the rows that it writes.

Keys are numbers. A frontier moves over them step by step, by the wall clock that all writers of a
machine share: keys below it are in use, and with each step some above it are new. So writers that
know nothing of each other insert the same new keys at the same time. The partition of a key follows
from its number: three are in use at a time, and after a while three new ones, so that writes do
not get slower the longer the soak takes.

Each write also has a row of its own, its *witness*: it tells whether the write is in the table.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])

KEYS_PER_WRITE = 24
RECENT = 120
NEW = 36
STEP_S = 2.5
_PARTITIONS = 3
_KEYS_PER_PARTITIONS = 1800
_WRITES_PER_WRITER = 10_000_000


def frontier_at(seconds: float) -> int:
    """The first key that is not in use yet, so many seconds after the start."""
    return RECENT + int(seconds / STEP_S) * NEW


def draw_keys(chance: random.Random, frontier: int) -> tuple[str, list[int]]:
    """Some keys around the frontier, and which sort of write they make."""
    recent, new = range(frontier - RECENT, frontier), range(frontier, frontier + NEW)
    sort = chance.choices(["new", "mixed", "recent"], [6, 3, 1])[0]
    if sort == "new":
        return sort, chance.sample(new, KEYS_PER_WRITE)
    if sort == "recent":
        return sort, chance.sample(recent, KEYS_PER_WRITE)
    half = KEYS_PER_WRITE // 2
    return sort, chance.sample(recent, half) + chance.sample(new, half)


def partition_of(key: int) -> str:
    """Where a key belongs, for good."""
    return f"{key // _KEYS_PER_PARTITIONS:03d}-{key % _PARTITIONS}"


def value_of(writer: int, number: int) -> int:
    """The value that one write alone writes."""
    return writer * _WRITES_PER_WRITER + number


def key_text(key: int) -> str:
    return f"k{key:07d}"


def key_number(text: str) -> int:
    return int(text[1:])


def witness_id(writer: int, number: int) -> str:
    return f"w-{writer}-{number}"


def is_witness(row_id: str) -> bool:
    return row_id.startswith("w-")


def rows_of(writer: int, number: int, keys: Iterable[int]) -> pa.Table:
    """The rows of a write; its witness is where its first key is."""
    v, keys = value_of(writer, number), list(keys)
    ids = [witness_id(writer, number), *map(key_text, keys)]
    parts = list(map(partition_of, [keys[0], *keys]))
    return pa.table([ids, parts, [v] * len(ids)], schema=SCHEMA)
