"""Looking up 100,000 of 1,000,000 keys in one HFile against a join with the same rows in Parquet.

Entries look like those of a record index: a UUID as key, some 50 bytes as value, a hundred file
groups. Cold opens the file anew each time (its bytes are in the system's cache), warm does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.clock import best, ratio_line, side_by_side
from hoodoo.format.hfile import Entries, HFileCodec, HFileReader, write_hfile

ROWS = 1_000_000
WANTED = 100_000
FILE_GROUPS = 100
AIM_SECONDS = 0.6  # what Apache Hudi's makers report for their reader


def entries(rows: int, seed: int = 1) -> pa.Table:
    """Rows of a record index, sorted by key."""
    chance = np.random.default_rng(seed)
    digits = chance.bytes(16 * rows).hex()
    uuids = (digits[at : at + 32] for at in range(0, 32 * rows, 32))
    keys = [f"{u[:8]}-{u[8:12]}-{u[12:16]}-{u[16:20]}-{u[20:]}".encode() for u in sorted(uuids)]
    groups = [chance.bytes(18 + number % 3) for number in range(FILE_GROUPS)]  # varints differ
    stem, rest = bytes(5) + b"\0\x0a\0\0\0\x02\x02\0\x02", b"\x02\0\x02\0\x02\xde\xaa\xbf\xa6\0\0\0"
    values = [stem + groups[n] + rest for n in chance.integers(0, FILE_GROUPS, rows)]
    return pa.table(
        {"key": pa.array(keys, pa.large_binary()), "value": pa.array(values, pa.large_binary())}
    )


def run(folder: Path) -> None:
    """Print the ratios."""
    table = entries(ROWS)
    chance = np.random.default_rng(2)
    wanted = table["key"].take(pa.array(chance.permutation(ROWS)[:WANTED])).combine_chunks()
    parquet = folder / "rows.parquet"
    pq.write_table(table, parquet, compression="zstd")
    join = partial(_join, parquet, wanted)
    assert join().num_rows == WANTED
    with ThreadPoolExecutor(2) as pool:
        for codec, block_size in (
            (HFileCodec.GZIP, 64 << 10),
            (HFileCodec.GZIP, 1 << 20),
            (HFileCodec.NONE, 64 << 10),
        ):
            path = folder / f"rows-{codec.name}-{block_size}.hfile"
            write = partial(_write, path, table, codec, block_size)
            took = best(write, repeat=1)
            name = f"{codec.name.lower()}, blocks of {block_size >> 10} kB"
            size = path.stat().st_size / 1e6
            print(f"HFile, {name}: written in {took:.2f} s, {size:.0f} MB")
            _compare(path, wanted, join, pool)


def _compare(
    path: Path, wanted: pa.Array, join: Callable[[], pa.Table], pool: ThreadPoolExecutor
) -> None:
    what = f"look up {WANTED:,} of {ROWS:,} keys"
    cold, theirs = side_by_side(partial(_cold, path, wanted), join)
    print(ratio_line(f"  {what}, cold", cold, theirs))
    threads, theirs = side_by_side(partial(_cold, path, wanted, map_groups=pool.map), join)
    print(ratio_line("  the same, two threads", threads, theirs))
    with _open(path) as reader:
        assert len(reader.find(wanted)) == WANTED
        warm, theirs = side_by_side(lambda: reader.find(wanted), join)
        print(ratio_line("  the same, warm", warm, theirs))
        one = best(lambda: reader.find(wanted[:1]))
        prefixes = best(lambda: reader.find_prefixes(pc.binary_slice(wanted[:100], 0, 5)), repeat=2)
        everything = best(reader.read_all, repeat=2)
    verdict = "met" if cold < AIM_SECONDS else "MISSED"
    print(f"  cold in {cold:.3f} s (aim {AIM_SECONDS} s: {verdict})")
    print(f"  one key {one * 1e3:.2f} ms, 100 prefixes {prefixes * 1e3:.0f} ms", end=", ")
    print(f"all entries {everything:.2f} s")


def _write(path: Path, table: pa.Table, codec: HFileCodec, block_size: int) -> None:
    path.write_bytes(write_hfile(table["key"], table["value"], codec=codec, block_size=block_size))


@contextmanager
def _open(path: Path, **options: object) -> Iterator[HFileReader]:
    with path.open("rb") as file:
        size = path.stat().st_size
        yield HFileReader(
            lambda start, length: os.pread(file.fileno(), length, start), size, **options
        )


def _cold(path: Path, wanted: pa.Array, **options: object) -> Entries:
    with _open(path, **options) as reader:
        return reader.find(wanted)


def _join(parquet: Path, wanted: pa.Array) -> pa.Table:
    rows = pq.read_table(parquet)
    return rows.join(pa.table({"key": wanted}), "key", join_type="inner")
