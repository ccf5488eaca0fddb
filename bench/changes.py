"""The change feed against a full difference of two snapshots: one row in a hundred of two million.

Once with changes all over the table, so that every file group changed, and once in one of its
partitions, as they come where partitions are days. And once with a clustering of everything
behind them: rows that only moved are found out by their keys and versions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hoodoo
from bench.clock import ratio_line, side_by_side
from bench.reads import CITIES, trips

ROWS = 2_000_000
CHANGED = ROWS // 100
DELETED = CHANGED // 10
_FILE_BYTES = 24 * 1024 * 1024


def run(folder: Path) -> None:
    """Print the ratios."""
    for kind in ("cow", "mor"):
        table = _build(folder / kind, kind)
        for where in ("everywhere", "in one partition"):
            since = _change(table, only=CITIES[0] if where != "everywhere" else None)
            what = f"{kind}, {CHANGED:,} of {ROWS:,} rows changed {where}"
            _compare(what, table, since, aim=1.0)
    since = _change(table, only=None)
    table.schedule_compaction()
    table.run_compaction()
    table.schedule_clustering(order_by=["driver"])
    table.run_clustering()
    _compare("mor, everywhere, then compacted and clustered", table, since)


def _build(place: Path, kind: str) -> hoodoo.Table:
    rows = trips(ROWS)
    hoodoo.create_table(
        str(place),
        schema=rows.schema,
        record_key="trip_id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
    )
    options = {"hoodie.parquet.max.file.size": _FILE_BYTES, "hoodie.clean.automatic": False}
    table = hoodoo.open_table(str(place), options)
    table.bulk_insert(rows)
    return table


def _change(table: hoodoo.Table, *, only: str | None) -> str:
    """Update and delete rows; the instant before that."""
    present = table.to_arrow(columns=trips(1).column_names)
    since = str(table.timeline()[-1].requested_time)
    if only is not None:
        present = present.filter(pc.equal(present["city"], only))
    places = np.random.default_rng(7).choice(present.num_rows, CHANGED, replace=False)
    chosen = present.take(pa.array(np.sort(places)))
    updated = chosen.slice(DELETED)
    later = pc.add(updated["ts"], 10**10)
    table.upsert(
        updated.set_column(2, "ts", later).set_column(4, "fare", pc.add(updated["fare"], 1))
    )
    table.delete(chosen.slice(0, DELETED).select(["trip_id", "city"]))
    return since


def _compare(what: str, table: hoodoo.Table, since: str, aim: float | None = None) -> None:
    feed = table.changes(since=since, deletes=True, before=True)
    assert feed.num_rows == 2 * (CHANGED - DELETED) + DELETED
    ours, theirs = side_by_side(
        lambda: table.changes(since=since, deletes=True, before=True),
        lambda: _diff(table, since),
        repeat=3,
    )
    print(ratio_line(f"{what}: changes against a full difference", ours, theirs, aim))


def _diff(table: hoodoo.Table, since: str) -> int:
    """Both snapshots, joined by key; how many rows differ: what one would do by hand."""
    columns = trips(1).column_names
    old, new = table.to_arrow(columns, as_of=since), table.to_arrow(columns)
    joined = old.join(new, "trip_id", join_type="full outer", right_suffix="_new")
    same = pa.array(np.ones(joined.num_rows, bool))
    for name in columns[1:]:
        equal = pc.equal(joined[name], joined[f"{name}_new"])
        same = pc.and_(same, pc.fill_null(equal.combine_chunks(), False))
    return joined.filter(pc.invert(same)).num_rows
