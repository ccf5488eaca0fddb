"""Opening tables with long timelines: time per instant must stay flat."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import hoodoo
from bench.clock import best
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import SCHEMA_KEY, CommitMetadata
from hoodoo.model.instant import Action, Instant, State, from_wall_ms
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path

SIZES = (1_000, 5_000, 20_000)


def build(path: Path, instants: int) -> str:
    """A table with this many completed commits, each with its three files."""
    schema = pa.schema([("id", pa.string())])
    table = hoodoo.create_table(str(path / f"t{instants}"), schema=schema, record_key="id")
    ref = open_ref(table.uri)
    layout, text = ref.properties.timeline_paths, ref.properties.create_schema or ""
    commit = CommitMetadata(extra_metadata={SCHEMA_KEY: text}, operation_type="INSERT")
    data = codec.encode(commit)
    folder = path / f"t{instants}"
    (folder / layout.active).mkdir(parents=True, exist_ok=True)
    for number in range(instants):
        time = from_wall_ms(1_767_225_600_000 + 1000 * number)
        done = from_wall_ms(1_767_225_600_000 + 1000 * number + 500)
        for instant in (
            Instant(time, Action.COMMIT, State.REQUESTED),
            Instant(time, Action.COMMIT, State.INFLIGHT),
            Instant(time, Action.COMMIT, State.COMPLETED, done),
        ):
            # Written past the storage seam on purpose: no fsync for files of a benchmark.
            content = data if instant.is_completed else b""
            (folder / instant_path(layout, instant)).write_bytes(content)
    return table.uri


def run(folder: Path) -> None:
    """Print the time to open a table and to take a snapshot, per instant."""
    for instants in SIZES:
        uri = build(folder, instants)
        assert len(open_ref(uri).load_timeline().commits) == instants
        opened = best(lambda: take_snapshot(open_ref(uri)))  # noqa: B023 run at once
        print(
            f"open + snapshot, {instants:>6,} active instants"
            f" {opened:24.3f} s  {opened / instants * 1e6:6.1f} us an instant"
        )
