"""Reads that list files by the metadata table: the same rows, and by directories if it is bad."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.archives import archive
from support.metadata_tables import with_metadata
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.format import properties as properties_codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.model.files import instant_of_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import FILES
from hoodoo.model.paths import PartitionPath
from hoodoo.read.file_listing import DirectoryLister, FileFinder
from hoodoo.read.scan import scan
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.tables.metadata_tables import make_listing

Unpack = Callable[[str], Path]
OFF = {"hoodie.metadata.enable": "false"}
USED = "v9_txns_simple_meta"
LATER = InstantTime("20991231235959000")
LAST = InstantTime("20991231235959999")


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "hoodoo.table")
    return caplog


@pytest.fixture
def copy(unpack: Unpack, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a fixture table, to be changed."""

    def make(table: str) -> Path:
        return Path(shutil.copytree(unpack(table), tmp_path / table.replace("/", "-")))

    return make


def read(path: Path | str, options: dict[str, str] | None = None, **what: object) -> list:
    return rows_of(hoodoo.open_table(str(path), options).to_arrow(**what))


def traced(
    path: Path | str, options: dict[str, str] | None = None
) -> tuple[TableRef, TracedStorage]:
    storage = TracedStorage(Env.of(str(path)).storage)
    ref = open_ref(str(path), options, Env(storage))
    storage.clear()
    return ref, storage


def by_path(files) -> dict[str, int]:
    return {file.path: file.size_bytes for file in files}


# -- the same as by directories -----------------------------------------------------------------


@pytest.mark.parametrize("table", with_metadata())
def test_metadata_table_lists_what_directories_hold(table: str, unpack: Unpack, warnings) -> None:
    ref = open_ref(str(unpack(table)))
    index = FileFinder(ref, ref.load_timeline())
    directories = DirectoryLister(ref.env, ref.properties.keys)
    assert by_path(index.files()) == by_path(directories.files())
    assert index.partitions() == directories.partitions()
    for wanted in directories.partitions():

        def keep(path: PartitionPath, *, whole: bool, wanted: str = wanted) -> bool:
            return f"{wanted}/".startswith(f"{path}/")

        kept = by_path(index.files(keep))
        assert kept == {p: s for p, s in by_path(directories.files()).items() if wanted in p}
    assert not warnings.records


@pytest.mark.parametrize("table", with_metadata())
def test_rows_are_the_same_with_and_without_it_and_those_of_the_wheel(
    table: str, unpack: Unpack, warnings
) -> None:
    path = unpack(table)
    ref, storage = traced(path)
    rows = rows_of(scan(ref, LocalEngine(1)))
    assert rows == read(path, OFF) == wheel_rows(path)
    listed = [operation.path for operation in storage.operations if operation.verb == "list"]
    assert listed
    assert all(place.startswith(".hoodie") for place in listed)
    assert not warnings.records


@pytest.mark.slow
@pytest.mark.parametrize("table", with_metadata())
def test_time_travel_and_changes_are_the_same_with_and_without_it(
    table: str, unpack: Unpack, warnings
) -> None:
    path = unpack(table)
    commits = open_ref(str(path)).load_timeline().commits
    for instant in commits:
        time = instant.requested_time
        assert read(path, as_of=time) == read(path, OFF, as_of=time)
        changes = [
            rows_of(hoodoo.open_table(str(path), options).changes(since=time, until=until))
            for options in (None, OFF)
            for until in (None, commits.instants[-1].requested_time)
        ]
        assert changes[:2] == changes[2:]
    assert not warnings.records


# -- it is used ---------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [f"cow/{USED}", f"mor-avro/{USED}"])
def test_a_file_that_it_hides_is_not_read(table: str, copy: Callable[[str], Path]) -> None:
    path = copy(table)
    before = read(path)
    ref = open_ref(str(path))
    made = make_listing(ref)
    assert read(path) == before
    slice_ = take_snapshot(ref).slices()[0]
    assert slice_.base is not None
    change = file_changes({}, {slice_.group.partition: [str(slice_.base.name)]})
    made.commit(LATER, {FILES: change}, completion_time=LAST)
    assert len(read(path)) < len(before)
    assert read(path, OFF) == before


def test_a_setting_or_a_missing_partition_in_the_properties_turns_it_off(
    copy: Callable[[str], Path],
) -> None:
    path = copy(f"cow/{USED}")
    for change in (OFF, {"hoodie.metadata.enable": "FALSE"}):
        ref, storage = traced(path, change)
        scan(ref, LocalEngine(1))
        assert not [o for o in storage.operations if o.path.startswith(".hoodie/metadata")]
    file = path / ".hoodie/hoodie.properties"
    raw = properties_codec.parse(file.read_bytes())
    raw["hoodie.table.metadata.partitions"] = "column_stats"
    raw["hoodie.table.metadata.partitions.inflight"] = "files"
    file.write_bytes(properties_codec.serialise(raw, comment="changed"))
    ref, storage = traced(path)
    scan(ref, LocalEngine(1))
    assert not [o for o in storage.operations if o.path.startswith(".hoodie/metadata")]


@pytest.mark.parametrize(
    ("table", "version"),
    [
        ("mor-parquet/v6_simplekeygen_nonhivestyle", 6),
        ("cow/v6_nonpartitioned", 6),
        ("cow/v8_simplekeygen_nonhivestyle", 8),
        ("cow/v8_nonpartitioned", 8),
        ("cow/v9_txns_simple_nometa", 9),
    ],
)
def test_every_table_version_reads_through_it(
    table: str, version: int, copy: Callable[[str], Path], warnings
) -> None:
    path = copy(table)
    before = read(path)
    ref = open_ref(str(path))
    made = make_listing(ref, version=version)
    assert read(path) == before
    file = next(iter(DirectoryLister(ref.env, ref.properties.keys).files()))
    hide = file_changes({}, {file.partition: [str(file.name)]})
    made.commit(LATER, {FILES: hide}, completion_time=LAST)
    index = FileFinder(open_ref(str(path)), ref.load_timeline())
    assert file.path not in by_path(index.files())
    assert not warnings.records


# -- what counts --------------------------------------------------------------------------------


def make_table(path: Path, kind: str = "cow") -> hoodoo.Table:
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
    return hoodoo.create_table(
        str(path), schema=schema, record_key="id", partition_by="p", table_type=kind
    )


def rows(partition: str, *ids: str, v: int = 0) -> pa.Table:
    return pa.table({"id": ids, "p": [partition] * len(ids), "v": pa.array([v] * len(ids))})


def commit_files(made, path: Path, time: str, ended: str | None, partition: str) -> EntryBatch:
    """What a commit of the table added, as another commit of the metadata table."""
    ref = open_ref(str(path))
    files = DirectoryLister(ref.env, ref.properties.keys).files()
    own = {str(f.name): f.size_bytes for f in files if instant_of_file(f) == time}
    change = file_changes({PartitionPath(partition): own})
    made.commit(
        InstantTime(time), {FILES: change}, completion_time=InstantTime(ended) if ended else None
    )
    return change


def test_a_later_commit_adds_its_files_and_a_lost_one_falls_back(tmp_path: Path, warnings) -> None:
    table = make_table(tmp_path / "t")
    table.insert(rows("a", "1", "2"))
    made = make_listing(open_ref(table.uri))
    # Written behind the metadata table's back, as no writer should.
    off_properties(tmp_path / "t")
    hoodoo.open_table(table.uri).insert(rows("b", "3"))
    made.publish()
    assert len(read(table.uri)) == 3
    instant = open_ref(table.uri).load_timeline().commits.instants[-1]
    (warning,) = warnings.records
    assert str(instant) in warning.getMessage()
    warnings.clear()
    commit_files(made, tmp_path / "t", instant.requested_time, instant.completion_time, "p=b")
    assert len(read(table.uri)) == 3
    assert not warnings.records


def off_properties(path: Path) -> None:
    file = path / ".hoodie/hoodie.properties"
    raw = properties_codec.parse(file.read_bytes())
    raw.pop("hoodie.table.metadata.partitions", None)
    file.write_bytes(properties_codec.serialise(raw, comment="changed"))


def test_what_an_unfinished_commit_of_the_table_wrote_to_it_does_not_count(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.insert(rows("a", "1", "2"))
    ref = open_ref(table.uri)
    made = make_listing(ref)
    (file,) = DirectoryLister(ref.env, ref.properties.keys).files()
    hide = file_changes({}, {file.partition: [str(file.name)]})
    timeline = tmp_path / "t" / ref.properties.timeline_paths.active
    (timeline / f"{LATER}.clean.inflight").write_bytes(b"")
    made.commit(LATER, {FILES: hide}, completion_time=LAST)
    assert len(read(table.uri)) == 2
    (timeline / f"{LATER}.clean.inflight").unlink()
    assert len(read(table.uri)) == 0


def test_logs_count_in_the_order_in_which_their_commits_ended(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.insert(rows("a", "1", "2"))
    ref = open_ref(table.uri)
    made = make_listing(ref)
    (file,) = DirectoryLister(ref.env, ref.properties.keys).files()
    own = {file.partition: {str(file.name): file.size_bytes}}
    again = file_changes(own)
    hide = file_changes({}, {file.partition: [str(file.name)]})
    first, second = InstantTime("20990101000000001"), InstantTime("20990101000000002")
    made.commit(second, {FILES: hide}, completion_time=InstantTime("20990101000000003"))
    made.commit(first, {FILES: again}, completion_time=InstantTime("20990101000000004"))
    assert len(read(table.uri)) == 2


def test_a_log_that_ended_after_a_compaction_began_is_on_top_of_it(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.insert(rows("a", "1"))
    table.insert(rows("b", "2"))
    ref = open_ref(table.uri)
    files = list(DirectoryLister(ref.env, ref.properties.keys).files())
    made = make_listing(ref)
    early, compaction = InstantTime("20990101000000001"), InstantTime("20990101000000002")
    hide = file_changes({}, {files[0].partition: [str(files[0].name)]})
    made.commit(early, {FILES: hide}, completion_time=InstantTime("20990101000000003"))
    every = file_changes({f.partition: {str(f.name): f.size_bytes} for f in files}).entries
    assert every is not None
    ended = InstantTime("20990101000000004")
    made.compact(FILES, every, time=compaction, completion_time=ended)
    assert len(read(table.uri)) == 1
    # One that ended before it began is in it.
    late = InstantTime("20990101000000005")
    made.compact(FILES, every, time=late, completion_time=InstantTime("20990101000000006"))
    assert len(read(table.uri)) == 2


def test_a_dropped_partition_is_not_listed(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.insert(rows("a", "1"))
    table.insert(rows("b", "2"))
    made = make_listing(open_ref(table.uri))
    drop = file_changes({}, {}, dropped_partitions=[PartitionPath("p=a")])
    made.commit(LATER, {FILES: drop}, completion_time=LAST)
    ref = open_ref(table.uri)
    assert FileFinder(ref, ref.load_timeline()).partitions() == ["p=b"]
    assert len(read(table.uri)) == 1


def test_commits_that_are_archived_are_listed_as_before(tmp_path: Path, warnings) -> None:
    table = make_table(tmp_path / "t", "mor")
    for number in range(6):
        table.upsert(rows("a", "1", str(number), v=number))
    place = tmp_path / "t/.hoodie/timeline"
    ref = open_ref(table.uri)
    commits = ref.load_timeline().commits.instants
    old = [
        ArchivedInstant(
            requested_time=one.requested_time,
            completion_time=one.completion_time,
            action=one.action,
            metadata=read_bytes(place, f"{one.requested_time}_*"),
        )
        for one in commits[:3]
    ]
    before = read(table.uri)
    archive(tmp_path / "t", *old)
    for one in commits[:3]:
        for file in place.glob(f"{one.requested_time}*"):
            file.unlink()
    make_listing(open_ref(table.uri))
    assert read(table.uri) == before == read(table.uri, OFF)
    for one in commits[2:]:
        time = one.requested_time
        assert read(table.uri, as_of=time) == read(table.uri, OFF, as_of=time)
    assert not warnings.records


def read_bytes(place: Path, pattern: str) -> bytes:
    (file,) = place.glob(pattern)
    return file.read_bytes()


# -- damage -------------------------------------------------------------------------------------


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def garble(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[60:124] = bytes(64)
    file.write_bytes(data)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, garble, empty, Path.unlink], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["base", "log", "properties", "commit"])
def test_damage_falls_back_to_directories_with_one_warning(
    kind: str, damage: Callable[[Path], None], copy: Callable[[str], Path], warnings
) -> None:
    path = copy(f"mor-avro/{USED}")
    before = read(path, OFF)
    inside = path / ".hoodie/metadata"
    log = max((inside / "files").glob(".files-0000-0_*"), key=lambda file: file.name)
    time = log.name.split("_")[1].split(".")[0]
    (commit,) = (inside / ".hoodie/timeline").glob(f"{time}_*.deltacommit")
    places = {
        "base": max((inside / "files").glob("*.hfile"), key=lambda p: p.name.split("_")[-1]),
        "log": log,
        "properties": inside / ".hoodie/hoodie.properties",
        "commit": commit,
    }
    damage(places[kind])
    assert read(path) == before
    told = [record.getMessage() for record in warnings.records]
    if kind == "properties" and damage is garble:
        return  # a comment, or a key that nobody needs
    if kind == "commit" and damage is not Path.unlink:
        assert not told  # it is not read where all its files are there
        return
    assert len(told) == 1
    assert told[0].startswith("metadata_table_not_used")


@pytest.mark.parametrize("lost", ["files", ".hoodie", "."])
def test_a_lost_directory_falls_back_to_directories(
    lost: str, copy: Callable[[str], Path], warnings
) -> None:
    path = copy(f"cow/{USED}")
    before = read(path, OFF)
    shutil.rmtree(path / ".hoodie/metadata" / lost)
    assert read(path) == before
    assert len(warnings.records) == 1
