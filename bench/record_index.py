"""Locating 1 % and 10 % of 1,000,000 keys: by the record index, and by searching data files.

Keys are UUIDs, in one partition of some file groups; both ways give the same destinations. The
record index is made by hand, in ten file groups, as Apache Hudi makes it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import hoodoo
from bench.clock import ratio_line, side_by_side
from hoodoo.engine.local import LocalEngine
from hoodoo.env import Env
from hoodoo.format.metadata.record_index import LOCATIONS
from hoodoo.format.schema import RECORD_KEY
from hoodoo.index import Index
from hoodoo.index.record import RecordIndex
from hoodoo.index.simple import SimpleIndex
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.read import read_rule, read_slice, slice_reads
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.snapshot import take_snapshot
from hoodoo.testing.metadata_tables import make_listing
from hoodoo.write.assignment import Target
from hoodoo.write.locate import LocatedRows, locate
from hoodoo.write.prepare import Incoming

ROWS = 1_000_000
FILE_BYTES = 4 << 20
GROUPS = 10
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.float64())])


def run(folder: Path) -> None:
    """Print the ratios."""
    ids = _make(folder / "t")
    storage = TracedStorage(Env.of(str(folder / "t")).storage)
    snapshot = take_snapshot(open_ref(str(folder / "t"), None, Env(storage)))
    print(f"{ROWS:,} keys in {len(snapshot.slices())} file groups")
    chance = np.random.default_rng(2)
    for share in (0.0001, 0.01, 0.1):
        wanted = ids.take(pa.array(chance.permutation(ROWS)[: int(ROWS * share)]))
        places = pa.repeat("p=a", len(wanted))
        incoming = Incoming(pa.table({RECORD_KEY: wanted}), wanted, places)

        def by(index: Index, incoming: Incoming = incoming) -> LocatedRows:
            return locate(Target(snapshot, index), incoming, LocalEngine(2))

        record, simple = partial(by, RecordIndex()), partial(by, SimpleIndex())
        storage.clear()
        expected, found = simple().counts, record().counts
        assert found == expected
        read = sum(o.size_bytes for o in storage.operations if o.path.endswith(".hfile"))
        ours, theirs = side_by_side(record, simple)
        text = f"locate {len(wanted):,}: record index against a search of data files"
        print(ratio_line(text, ours, theirs), f"(HFiles: {read / 1e6:.1f} MB read)")


def _make(place: Path) -> pa.Array:
    """A table with a record index; its keys."""
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
    ref = open_ref(str(place))
    made = make_listing(ref)
    newest = ref.load_timeline().newest_time or InstantTime("0" * 17)
    made.fill(RECORD_INDEX, _locations(ref), ended=newest, groups=GROUPS)
    made.publish()
    return ids


def _locations(ref: TableRef) -> pa.Table:
    snapshot = take_snapshot(ref)
    parts = []
    for read in slice_reads(snapshot, read_rule(snapshot, columns=[RECORD_KEY]), snapshot.slices()):
        keys, group = read_slice(read).column(RECORD_KEY), read.slice.group
        texts = [pa.repeat(text, len(keys)) for text in (group.partition, group.file_id)]
        instant = pa.repeat(pa.scalar(1_700_000_000_000, pa.int64()), len(keys))
        columns = [keys, *texts, instant, pa.nulls(len(keys), pa.int64())]
        parts.append(pa.table(columns, LOCATIONS))
    return pa.concat_tables(parts).sort_by("key")
