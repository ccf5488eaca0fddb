"""Reading entries: all, by key, by prefix; few bytes for few keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.metadata_tables import with_metadata

from hoodoo.errors import FormatError, InputError
from hoodoo.format.metadata_table.keys import ALL_PARTITIONS
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.entries.read import (
    EntryFilter,
    find_entries,
    find_prefixes,
    group_numbers,
    read_entries,
    read_group,
)
from hoodoo.metadata_table.indexes.files import MetadataLister, file_changes
from hoodoo.metadata_table.table import MetadataTable, open_metadata_table
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import FILES, RECORD_INDEX
from hoodoo.model.names import derived_uuid
from hoodoo.model.paths import PartitionPath
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.create import create_table
from hoodoo.table.ref import open_ref
from hoodoo_testing.tables.metadata_tables import HandMadeMetadata

pytestmark = pytest.mark.slow

Unpack = Callable[[str], Path]
KEYS = 40_000


def open_of(path: Path | str, env: Env | None = None) -> MetadataTable:
    ref = open_ref(str(path), None, env)
    return open_metadata_table(ref.env, ref.load_timeline())


@pytest.mark.parametrize("table", [name for name in with_metadata() if name.endswith("_meta")])
def test_keys_prefixes_and_groups_give_the_same_entries_as_all(table: str, unpack: Unpack) -> None:
    ref = open_ref(str(unpack(table)))
    opened = open_metadata_table(ref.env, ref.load_timeline())
    for partition in ref.properties.metadata_partitions:
        files = opened.load_partition(partition)
        every = read_entries(opened, files, engine=LocalEngine(4))
        keys = every["key"].combine_chunks()
        assert len(set(keys.to_pylist())) == len(keys) > 0
        by_key = {row["key"]: repr(row) for row in every.to_pylist()}
        some = keys[::3]
        found = find_entries(opened, files, some)
        assert {r["key"]: repr(r) for r in found.to_pylist()} == {
            key: by_key[key] for key in some.to_pylist()
        }
        prefixes = pa.array([key[:5] for key in some.to_pylist()[:4]])
        starts = tuple(prefixes.to_pylist())
        found = find_prefixes(opened, files, prefixes)
        assert {r["key"]: repr(r) for r in found.to_pylist()} == {
            key: text for key, text in by_key.items() if key.startswith(starts)
        }
        numbers = group_numbers(opened, files, keys)
        for number, one in enumerate(files.slices):
            group = read_group(opened, partition, one)
            own = keys.filter(pa.array(numbers == number)).to_pylist()
            assert sorted(group["key"].to_pylist()) == sorted(own)


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A table with a record index of many keys in few file groups, and a commit on top."""
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    path = tmp_path / "t"
    create_table(str(path), schema=schema, record_key="id", partition_by="p")
    made = HandMadeMetadata(open_ref(str(path)).env)
    ended = InstantTime("20260101000000000")
    lists = file_changes({PartitionPath(""): {}}).entries
    assert lists is not None
    made.fill(FILES, lists, completion_time=ended)
    made.fill(RECORD_INDEX, locations(range(KEYS)), completion_time=ended, groups=2)
    moved = locations(range(100), file_id="moved-0")
    gone = pa.array([f"key-{number:08d}" for number in range(100, 110)])
    time = InstantTime("20260101000000001")
    made.commit(
        time,
        {RECORD_INDEX: EntryBatch(moved, gone)},
        completion_time=InstantTime("20260101000000002"),
    )
    made.publish()
    return path


def locations(numbers: range, file_id: str = "") -> pa.Table:
    count = len(numbers)
    ids = [file_id or f"{number * 7919:08x}-0000-4000-8000-000000000000-0" for number in numbers]
    columns = [
        pa.array([f"key-{number:08d}" for number in numbers]),
        pa.repeat("p=a", count),
        pa.array(ids),
        pa.array([1_700_000_000_000 + number for number in numbers]),
        pa.nulls(count, pa.int64()),
    ]
    return pa.table(columns, LOCATIONS)


def test_few_keys_take_few_bytes_of_the_base_file(indexed: Path) -> None:
    storage = TracedStorage(Env.of(str(indexed)).storage)
    opened = open_of(indexed, Env(storage))
    files = opened.load_partition(RECORD_INDEX)
    storage.clear()
    every = read_entries(opened, files)
    assert every.num_rows == KEYS - 10
    whole = sum(o.size_bytes for o in storage.operations if o.path.endswith(".hfile"))
    assert whole >= sum(one.base.size_bytes for one in files.slices if one.base)
    storage.clear()
    found = find_entries(opened, files, pa.array(["key-00020000"]))
    assert found.num_rows == 1
    few = sum(o.size_bytes for o in storage.operations if o.path.endswith(".hfile"))
    read = {o.path for o in storage.operations if o.path.endswith(".hfile")}
    assert len(read) == 1  # the file group of the key alone
    assert few < whole / 3
    storage.clear()
    assert find_prefixes(opened, files, pa.array(["key-000200"])).num_rows == 100


def test_logs_move_and_delete_keys_of_the_base_file(indexed: Path) -> None:
    opened = open_of(indexed)
    files = opened.load_partition(RECORD_INDEX)
    keys = pa.array([f"key-{number:08d}" for number in (5, 105, 205, 99_999_999)])
    found = {row["key"]: row["file_id"] for row in find_entries(opened, files, keys).to_pylist()}
    assert sorted(found) == ["key-00000005", "key-00000205"]
    assert found["key-00000005"] == "moved-0"
    prefixed = find_prefixes(opened, files, pa.array(["key-000001"]))
    assert prefixed.num_rows == 90
    group = read_group(opened, RECORD_INDEX, files.slices[0], EntryFilter(keys=keys))
    assert set(group["key"].to_pylist()) <= set(found)


def test_a_lost_file_group_is_an_error(indexed: Path) -> None:
    for file in (indexed / ".hoodie/metadata" / RECORD_INDEX).glob("*record-index-0000-0*"):
        file.unlink()
    with pytest.raises(FormatError, match="file groups"):
        open_of(indexed).load_partition(RECORD_INDEX)


@pytest.mark.parametrize("lost", ["*.hfile", ".record-index-*_20260101000000001.log*"])
def test_a_lost_file_is_an_error_that_names_it(indexed: Path, lost: str) -> None:
    file = min((indexed / ".hoodie/metadata" / RECORD_INDEX).glob(lost))
    file.unlink()
    with pytest.raises(FormatError, match="missing") as raised:
        open_of(indexed).load_partition(RECORD_INDEX)
    assert raised.value.source is not None
    assert raised.value.source.endswith(file.name)


def test_expression_indexes_are_not_read(indexed: Path) -> None:
    opened = open_of(indexed)
    files = opened.load_partition(RECORD_INDEX)
    with pytest.raises(InputError, match="expr_index_x"):
        read_group(opened, "expr_index_x", files.slices[0])


def test_of_a_large_listing_only_the_wanted_partitions_are_read(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    path = tmp_path / "t"
    create_table(str(path), schema=schema, record_key="id", partition_by="p")
    storage = TracedStorage(Env.of(str(path)).storage)
    made = HandMadeMetadata(Env(storage))
    added = {
        PartitionPath(f"p={number:04d}"): {
            f"{derived_uuid(str(number), str(file))}-0_0-0-0_20250101000000000.parquet": 1000 + file
            for file in range(600)
        }
        for number in range(200)
    }
    entries = file_changes(added).entries
    assert entries is not None
    made.fill(FILES, entries, completion_time=InstantTime("20260101000000000"))
    made.publish()
    opened = open_of(path, Env(storage))
    lister = MetadataLister(opened, is_partitioned=True)

    def keep(path: PartitionPath, *, whole: bool) -> bool:
        return path == "p=0077"

    storage.clear()
    files = lister.files(keep)
    few = sum(o.size_bytes for o in storage.operations)
    assert {str(file.name) for file in files} == added[PartitionPath("p=0077")].keys()
    storage.clear()
    assert len(lister.files()) == 600 * 200
    every = sum(o.size_bytes for o in storage.operations)
    assert few < every / 4
    found = find_entries(opened, opened.load_partition(FILES), pa.array([ALL_PARTITIONS]))
    assert found.num_rows == 1
