"""What a metadata table says, held against the table itself: for tables that two engines write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from peer_client import Peer
from support.record_indexed import scan

from hoodoo.metadata.entries import read_entries
from hoodoo.metadata.entry_rules import rule_of
from hoodoo.metadata.file_changes import file_changes
from hoodoo.metadata.log_writer import encode_base, encode_log
from hoodoo.metadata.merge import Batch
from hoodoo.metadata.metadata_table import MetadataTable, open_metadata_table
from hoodoo.model.metadata_table import FILES
from hoodoo.model.names import LogFileName
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.table.ref import open_ref


def open_metadata(place: Path) -> MetadataTable:
    """The metadata table of a table, as it is now."""
    ref = open_ref(str(place))
    return open_metadata_table(ref.env, ref.load_timeline())


@contextmanager
def hiding_group_of(place: Path, key: str) -> Iterator[tuple[Path, set[str]]]:
    """A copy of the table whose metadata table denies the file group of a key; the keys in it."""
    located = scan(open_ref(str(place)))
    partition, file_id = located[key]
    copy = Path(shutil.copytree(place, place.with_name(f"{place.name}-hidden")))
    try:
        files = (copy / partition).iterdir()
        hide(copy, partition, [file.name for file in files if file_id in file.name])
        yield copy, {key for key, group in located.items() if group == (partition, file_id)}
    finally:
        shutil.rmtree(copy)


def hide(place: Path, partition: str, names: list[str]) -> None:
    """Let the listing say that these files are gone, beside the newest thing that it says."""
    table = open_metadata(place)
    files = table.load_partition(FILES)
    (one,) = files.slices
    change = file_changes({}, {PartitionPath(partition): names}, lists_partitions=False)
    if one.logs:
        newest = one.logs[-1].name
        name = LogFileName(newest.file_id, newest.instant_time, newest.version + 1, newest.token)
        data = encode_log(FILES, change, instant_time=newest.instant_time, created_ms=0)
        (place / join(METADATA_TABLE, FILES, str(name))).write_bytes(data)
        return
    assert one.base is not None
    entries = rule_of(FILES).merge([Batch(read_entries(table, files)), change])
    data = encode_base(FILES, entries, created_ms=0, name=str(one.base.name))
    (place / one.base.path).write_bytes(data)


def assert_no_complaints(hudi: Peer, place: Path) -> None:
    """Hudi's own procedures find in the metadata table what is stored, and nothing else."""
    hudi.sql(
        "drop table if exists listed", f"create table listed using hudi location '{place.as_uri()}'"
    )
    assert _call(hudi, "validate_metadata_table_files") == []
    told = _call(hudi, "validate_metadata_table_files", verbose="true")
    assert told, "nothing is listed"
    assert all(row["fs_size"] == row["metadata_size"] for row in told), told
    named = {row["partition"] for row in _call(hudi, "show_metadata_table_partitions")}
    assert named >= {row["partition"] for row in told}
    one = told[0]["partition"]
    files = _call(hudi, "show_metadata_table_files", partition=f"'{one}'")
    assert {row["file_path"] for row in files} == {
        row["file_name"] for row in told if row["partition"] == one
    }


def _call(hudi: Peer, procedure: str, **arguments: str) -> list[dict[str, Any]]:
    given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    told = hudi.sql(f"call {procedure}(table => 'listed'{', ' * bool(given)}{given})", rows=True)
    assert isinstance(told, pa.Table)
    rows: list[dict[str, Any]] = told.to_pylist()
    return rows
