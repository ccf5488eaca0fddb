"""The listing in the fixtures' metadata tables, merged by our rules, is what is on disk."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from support.metadata_tables import INSIDE, Piece, pieces_of, table_files, with_metadata

from hoodoo.format.metadata_table.column_stats import decode_column_stats
from hoodoo.format.metadata_table.files import decode_file_lists, explode
from hoodoo.format.metadata_table.keys import ALL_PARTITIONS, partition_name, partition_path
from hoodoo.format.metadata_table.record_index import decode_record_index
from hoodoo.metadata_table.entries.merge import (
    EntryBatch,
    merge_column_stats,
    merge_file_lists,
    merge_newest,
)
from hoodoo.metadata_table.table import valid_instants
from hoodoo.model.files import parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import parse_instant


def timeline(table: str, folder: str) -> list[Instant]:
    """The instants of a timeline folder, each in its furthest state."""
    instants: dict[tuple[str, Action], Instant] = {}
    for path in table_files(table):
        parent, _, name = path.rpartition("/")
        instant = parse_instant(name, layout=2) if parent == folder else None
        if instant is not None:
            key = (instant.requested_time, instant.action.completed_as)
            known = instants.get(key)
            if known is None or instant.state.rank > known.state.rank:
                instants[key] = instant
    return list(instants.values())


def slices(table: str, partition: str) -> dict[str, list[Piece]]:
    """By file group: the newest base file, and the blocks that count on top of it, in order."""
    data = timeline(table, ".hoodie/timeline")
    metadata = timeline(table, f"{INSIDE}.hoodie/timeline")
    valid = valid_instants(data, metadata)
    ended = {instant.requested_time: instant.completion_or_requested_time for instant in metadata}
    done = {instant.requested_time for instant in metadata if instant.is_completed}
    groups: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces_of(table):
        if piece.partition == partition and piece.instant_time in done:
            groups[piece.file_id].append(piece)
    made = {}
    for file_id, pieces in groups.items():
        bases = [piece for piece in pieces if piece.is_base]
        base = max(bases, key=lambda piece: piece.instant_time, default=None)
        logs = [piece for piece in pieces if not piece.is_base and piece.instant_time in valid]
        if base is not None:
            logs = [piece for piece in logs if ended[piece.instant_time] > base.instant_time]
        logs.sort(key=lambda piece: ended[piece.instant_time])
        made[file_id] = ([base] if base else []) + logs
    return made


def batches(table: str, partition: str, decode) -> list[list[EntryBatch]]:
    return [
        [
            EntryBatch(decode(p.keys, p.values, p.schema_json), p.deleted.cast(pa.string()))
            for p in pieces
        ]
        for pieces in slices(table, partition).values()
    ]


def data_files(table: str) -> dict[str, dict[str, int]]:
    """What is on disk: the data files of each partition."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for path, size in table_files(table).items():
        partition, _, name = path.rpartition("/")
        if not path.startswith(".hoodie") and parse_data_file(partition, name, size):
            found[partition_name(partition)][name] = size
    return dict(found)


@pytest.mark.parametrize("table", with_metadata())
def test_the_merged_listing_is_what_is_on_disk(table: str) -> None:
    (steps,) = batches(table, "files", decode_file_lists)
    listed = explode(merge_file_lists(steps)).to_pylist()
    assert not [row for row in listed if row["is_deleted"]]
    made: dict[str, dict[str, int]] = defaultdict(dict)
    partitions = {row["name"] for row in listed if row["key"] == ALL_PARTITIONS}
    for row in listed:
        if row["key"] != ALL_PARTITIONS:
            made[row["key"]][row["name"]] = row["size_bytes"]
    assert made == data_files(table)
    assert partitions == set(made)


@pytest.mark.parametrize("table", [name for name in with_metadata() if name.endswith("_meta")])
def test_the_merged_record_index_points_to_files_that_are_listed(table: str) -> None:
    ids = {
        (partition_path(partition), parse_data_file(partition, name, 1).name.file_id)
        for partition, files in data_files(table).items()
        for name in files
    }
    count = 0
    for steps in batches(table, "record_index", decode_record_index):
        merged = merge_newest(steps)
        places = zip(merged["partition"].to_pylist(), merged["file_id"].to_pylist(), strict=True)
        assert set(places) <= ids
        count += merged.num_rows
    assert count


@pytest.mark.parametrize("table", [name for name in with_metadata() if name.endswith("_meta")])
def test_the_merged_statistics_have_every_column_of_every_file_once(table: str) -> None:
    columns: dict[str, set[str]] = defaultdict(set)
    for steps in batches(table, "column_stats", decode_column_stats):
        rows = merge_column_stats(steps)
        for name, column in zip(
            rows["file_name"].to_pylist(), rows["column_name"].to_pylist(), strict=True
        ):
            assert column not in columns[name]
            columns[name].add(column)
    files = {name for files in data_files(table).values() for name in files}
    assert set(columns) == files
    assert len({frozenset(names) for names in columns.values()}) == 1


# -- which instants count -----------------------------------------------------------------------


def instant(time: str, action: Action, state: State = State.COMPLETED) -> Instant:
    return Instant(InstantTime(time), action, state)


def test_what_an_unfinished_commit_wrote_does_not_count() -> None:
    data = [
        instant("10", Action.COMMIT),
        instant("20", Action.COMMIT, State.INFLIGHT),
        instant("30", Action.DELTA_COMMIT, State.ABORTED),
    ]
    metadata = [
        instant("00000000000000002", Action.DELTA_COMMIT),
        instant("05", Action.DELTA_COMMIT),  # archived on the table's timeline
        instant("06", Action.DELTA_COMMIT, State.INFLIGHT),
        instant("10", Action.DELTA_COMMIT),
        instant("20", Action.DELTA_COMMIT),
        instant("30", Action.DELTA_COMMIT),
        instant("40", Action.ROLLBACK),
        instant("50", Action.COMMIT),  # a compaction: its base files are not filtered
    ]
    assert valid_instants(data, metadata) == {"00000000000000002", "05", "10", "40"}


def test_what_was_rolled_back_counts_as_its_blocks_are_undone() -> None:
    data = [instant("20", Action.COMMIT), instant("30", Action.ROLLBACK)]
    undone = {InstantTime("30"): [InstantTime("25")], InstantTime("01"): [InstantTime("00")]}
    assert valid_instants(data, [], rolled_back=undone) == {"20", "25", "30"}
    assert valid_instants([], []) == frozenset()
