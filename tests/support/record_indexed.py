"""Tables with a record index: copies of fixtures, tables of ours with one, or one made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.table import open_metadata_table
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write.index import Index
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import LocatedRows, locate
from hoodoo.write.planning.prepare import Incoming, combine, prepare
from hoodoo_testing.simulator.checks.metadata_table import check_record_index
from hoodoo_testing.tables.metadata_tables import HandMadeMetadata, make_listing
from support.indexed import INDEX, RECORD, Row, arrow, create

RECORD_INDEXED = [
    "cow/v9_txns_complex_meta",
    "cow/v9_txns_simple_meta",
    "mor-avro/v9_txns_nonpart_meta",
    "mor-avro/v9_txns_simple_meta",
]
"""The fixture tables that have a record index."""
INDEXED = {key: value for key, value in RECORD.items() if key != INDEX}
"""Options of a new table that gets a record index."""
GROUPS = 3
LATER = InstantTime("20991231235959000")
LAST = InstantTime("20991231235959999")

Located = dict[str, tuple[str, str]]
Sent = dict[tuple[str, str], list[int]]


def scan(ref: TableRef) -> Located:
    """The file group of every key, by reading all data files."""
    snapshot = take_snapshot(ref)
    if RECORD_KEY not in snapshot.schema.names:
        return {}
    rule = build_scan_rule(snapshot, columns=[RECORD_KEY])
    return {
        key: (read.slice.group.partition, read.slice.group.file_id)
        for read in slice_reads(snapshot, rule, snapshot.slices())
        for key in read_slice(read).column(RECORD_KEY).to_pylist()
    }


def indexed_keys(table: Any) -> Located:
    """The file group of every key, by the record index of a table."""
    ref = open_ref(table.uri)
    metadata = open_metadata_table(ref.env, ref.load_timeline())
    entries = read_entries(metadata, metadata.load_partition(RECORD_INDEX))
    return {row["key"]: (row["partition"], row["file_id"]) for row in entries.to_pylist()}


def check_index(table: Any, keys: set[str] | None = None) -> None:
    """The record index has these keys, where a scan of the table finds them, and no others."""
    found = indexed_keys(table)
    assert found == scan(open_ref(table.uri))
    assert keys is None or set(found) == keys
    check_record_index(open_ref(table.uri).env.storage)


def target_of(path: Path | str, index: Index, env: Env | None = None) -> WriteTarget:
    """The table as it is now, to be planned on by an index."""
    return WriteTarget(take_snapshot(open_ref(str(path), None, env)), index)


def locate_keys(target: WriteTarget, keys: list[str], partitions: list[str]) -> Sent:
    """Where rows that are nothing but keys go."""
    texts, places = pa.array(keys, pa.string()), pa.array(partitions, pa.string())
    rows = pa.table({RECORD_KEY: texts, PARTITION_PATH: places})
    return sent(locate(target, Incoming(rows, texts, places), LocalEngine(2)))


def sent(located: LocatedRows) -> Sent:
    """Destinations as plain values; those of leaving keys begin with a minus."""
    both = {(d.partition, d.label): rows.tolist() for d, rows in located.rows.items()}
    away = {(d.partition, f"-{d.label}"): rows.tolist() for d, rows in located.leaving.items()}
    return {**both, **away}


def locate_rows(
    target: WriteTarget, rows: list[Row], engine: Engine, *, deletes: bool = False
) -> tuple[Incoming, LocatedRows]:
    """Rows of `support.indexed`, one for each key, and where they go."""
    incoming, _ = prepare(target.ref, arrow(rows), target.snapshot.schema)
    incoming = combine(incoming, target.ref.properties.merge, across_partitions=True)
    located = locate(target, incoming, engine, deletes=deletes, in_all_partitions=deletes)
    return incoming, located


def make_indexed(
    place: Path | str, kind: str, ordering: str | None, steps: list[tuple[str, list[Row]]]
) -> Any:
    """A table of ours with a history, then with a record index of what it holds by then."""
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.parquet.small.file.limit": "0"}
    table = create(place, kind, options, ordering)
    for operation, rows in steps:
        if operation == "delete":
            table.delete([row[0] for row in rows])
        else:
            getattr(table, operation)(arrow(rows))
    add_record_index(open_ref(table.uri))
    return table


def add_record_index(
    ref: TableRef, located: Located | None = None, *, groups: int = GROUPS
) -> HandMadeMetadata:
    """A metadata table with a listing and a record index, by default of what the table holds."""
    made = make_listing(ref)
    newest = ref.load_timeline().newest_time or InstantTime("0" * 17)
    made.fill(
        RECORD_INDEX,
        locations(scan(ref) if located is None else located),
        completion_time=newest,
        groups=groups,
    )
    made.publish()
    return made


def locations(located: Located) -> pa.Table:
    """Entries of a record index."""
    keys = sorted(located, key=str.encode)
    columns = [
        pa.array(keys, pa.string()),
        pa.array([located[key][0] for key in keys], pa.string()),
        pa.array([located[key][1] for key in keys], pa.string()),
        pa.repeat(pa.scalar(1_700_000_000_000, pa.int64()), len(keys)),
        pa.nulls(len(keys), pa.int64()),
    ]
    return pa.table(columns, LOCATIONS)
