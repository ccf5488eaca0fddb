"""Locating 1 % and 10 % of 4,000,000 keys: by the record index, and by searching data files.

Keys are UUIDs, in one partition of some file groups; both ways give the same destinations. The
record index is made by hand, in ten file groups, as Apache Hudi makes it: packed by gzip, and not
packed. The first look-up of a process is told apart.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import hoodoo
from bench.clock import ratio_line
from hoodoo.format.hfile import HFileCodec
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write.index.record import RecordIndex
from hoodoo.write.index.simple import SimpleIndex
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import LocatedRows, locate
from hoodoo.write.planning.prepare import Incoming
from hoodoo_testing.tables.metadata_tables import make_listing

ROWS = 4_000_000
FILE_BYTES = 16 << 20
GROUPS = 10
SHARES = (0.0001, 0.001, 0.01, 0.1)
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.float64())])


def run(folder: Path) -> None:
    """Print the ratios."""
    for codec in (HFileCodec.GZIP, HFileCodec.NONE):
        place = folder / codec.name.lower()
        ids = make_table(place, codec)
        storage = TracedStorage(Env.of(str(place)).storage)
        snapshot = take_snapshot(open_ref(str(place), None, Env(storage)))
        files = snapshot.slices()
        size = sum(one.stat().st_size for one in place.glob(".hoodie/metadata/record_index/*"))
        print(
            f"{ROWS:,} keys in {len(files)} file groups; index: {codec.name}, {size / 1e6:.0f} MB"
        )
        chance = np.random.default_rng(2)
        for share in SHARES:
            wanted = ids.take(pa.array(chance.permutation(ROWS)[: int(ROWS * share)]))
            _compare(
                WriteTarget(snapshot, RecordIndex()), WriteTarget(snapshot, SimpleIndex()), wanted
            )
            read = sum(o.size_bytes for o in storage.operations if o.path.endswith(".hfile"))
            print(f"  all its turns read {read / 1e6:.1f} MB of HFiles")
            storage.clear()


def _compare(record: WriteTarget, simple: WriteTarget, wanted: pa.Array) -> None:
    incoming = Incoming(pa.table({RECORD_KEY: wanted}), wanted, pa.repeat("p=a", len(wanted)))

    def by(target: WriteTarget) -> LocatedRows:
        return locate(target, incoming, LocalEngine(2))

    first = [_timed(partial(by, target)) for target in (record, simple)]
    assert by(record).counts == by(simple).counts
    turns = [[_timed(partial(by, target)) for target in (record, simple)] for _ in range(5)]
    ours, theirs = (
        tuple(min(turn[side][unit] for turn in turns) for unit in (0, 1)) for side in (0, 1)
    )
    text = f"locate {len(wanted):,}: record index against a search of files"
    print(ratio_line(f"{text}, first", first[0][0], first[1][0]))
    print(ratio_line(text, ours[0], theirs[0]))
    print(ratio_line("  CPU seconds", ours[1], theirs[1]))


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds."""
    gc.collect()
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def make_table(place: Path, codec: HFileCodec | None) -> pa.Array:
    """A table, with a record index if there is a codec for it; its keys."""
    chance = np.random.default_rng(1)
    digits = chance.bytes(16 * ROWS).hex()
    ids = pa.array([digits[at : at + 32] for at in range(0, 32 * ROWS, 32)])
    # The metadata table is made by hand, below.
    options = {
        "hoodie.parquet.max.file.size": str(FILE_BYTES),
        "hoodie.metadata.enable": "false",
    }
    table = hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="p", options=options
    )
    table.bulk_insert(pa.table([ids, pa.repeat("a", ROWS), chance.random(ROWS)], SCHEMA))
    if codec is None:
        return ids
    ref = open_ref(str(place))
    made = make_listing(ref)
    newest = ref.load_timeline().newest_time or InstantTime("0" * 17)
    entries = _locations(ref)
    fill = partial(
        made.fill, RECORD_INDEX, entries, completion_time=newest, groups=GROUPS, codec=codec
    )
    print(f"the index is written in {_timed(fill)[1]:.1f} CPU s")
    made.publish()
    return ids


def _locations(ref: TableRef) -> pa.Table:
    snapshot = take_snapshot(ref)
    parts = []
    for read in slice_reads(
        snapshot, build_scan_rule(snapshot, columns=[RECORD_KEY]), snapshot.slices()
    ):
        keys, group = read_slice(read).column(RECORD_KEY), read.slice.group
        texts = [pa.repeat(text, len(keys)) for text in (group.partition, group.file_id)]
        instant = pa.repeat(pa.scalar(1_700_000_000_000, pa.int64()), len(keys))
        columns = [keys, *texts, instant, pa.nulls(len(keys), pa.int64())]
        parts.append(pa.table(columns, LOCATIONS))
    return pa.concat_tables(parts).sort_by("key")
