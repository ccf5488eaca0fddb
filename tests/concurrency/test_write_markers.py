"""Marker directories: both layouts to the byte, what is read from them, crashes in between."""

from __future__ import annotations

import logging
from collections import Counter
from hashlib import sha256
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.concurrency.markers import Markers, announce, delete_markers, load_markers
from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.model.commit import OperationType
from hoodoo.model.files import instant_of_file, parse_data_file
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.recovery.sweep import list_hoodie_directory
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.local import LocalStorage
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write import operations

pytestmark = pytest.mark.slow

T = InstantTime("20260102030405006")
DIRECTORY = f".hoodie/.temp/{T}"
LOG = MarkerName(f"city=rome/.b2-0_{T}.log.1_0-5-6", MarkerKind.CREATE)
BASE = MarkerName(f"city=rome/b2-0_0-1-2_{T}.parquet", MarkerKind.MERGE)
ROOT = MarkerName(f"c3-0_0-1-2_{T}.parquet", MarkerKind.CREATE)
ALL = (ROOT, LOG, BASE)  # sorted
TYPES = [MarkerType.DIRECT, MarkerType.BATCHED]

# Every file that Apache Hudi 1.2.0 left on a local disk for these three, in either layout.
CHECKSUM = b"crc\0"
HUDI_DIRECT = {
    f".c3-0_0-1-2_{T}.parquet.marker.CREATE.crc": CHECKSUM,
    f"c3-0_0-1-2_{T}.parquet.marker.CREATE": b"",
    f"city=rome/..b2-0_{T}.log.1_0-5-6.marker.CREATE.crc": CHECKSUM,
    f"city=rome/.b2-0_0-1-2_{T}.parquet.marker.MERGE.crc": CHECKSUM,
    f"city=rome/.b2-0_{T}.log.1_0-5-6.marker.CREATE": b"",
    f"city=rome/b2-0_0-1-2_{T}.parquet.marker.MERGE": b"",
}
HUDI_BATCHED = {
    ".MARKERS.type.crc": CHECKSUM,
    ".MARKERS0.crc": CHECKSUM,
    ".MARKERS1.crc": CHECKSUM,
    "MARKERS.type": b"TIMELINE_SERVER_BASED",
    "MARKERS0": (
        f"city=rome/b2-0_0-1-2_{T}.parquet.marker.MERGE\n"
        f"city=rome/.b2-0_{T}.log.1_0-5-6.marker.CREATE\n"
    ).encode(),
    "MARKERS1": f"c3-0_0-1-2_{T}.parquet.marker.CREATE\n".encode(),
}

_names = count()


def memory() -> MemoryStorage:
    return MemoryStorage(f"markers-{next(_names)}")


@pytest.fixture(params=["memory", "local"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Env:
    return Env(memory() if request.param == "memory" else LocalStorage(str(tmp_path)))


def content(env: Env) -> dict[str, bytes]:
    """The files of the marker directory, by their path in it."""
    listed = env.storage.list(DIRECTORY, recursive=True)
    return {e.path.removeprefix(f"{DIRECTORY}/"): env.storage.read(e.path) for e in listed}


def fill(env: Env, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        env.storage.put(f"{DIRECTORY}/{name}", data)


def without_checksums(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(".crc")}


def test_direct_markers_look_like_those_of_apache_hudi(env: Env) -> None:
    announce(env, T, ALL, type=MarkerType.DIRECT)
    assert content(env) == without_checksums(HUDI_DIRECT)


def test_batches_look_like_those_of_apache_hudi(env: Env) -> None:
    announce(env, T, [BASE, LOG], type=MarkerType.BATCHED)
    announce(env, T, [ROOT], type=MarkerType.BATCHED, number=1)
    assert content(env) == without_checksums(HUDI_BATCHED)


@pytest.mark.parametrize("files", [HUDI_DIRECT, HUDI_BATCHED], ids=["direct", "batched"])
def test_directories_of_apache_hudi_are_read(env: Env, files: dict[str, bytes]) -> None:
    fill(env, files)
    found = load_markers(env, T)
    assert found == Markers(ALL)
    assert found.paths == {LOG.data_file, BASE.data_file, ROOT.data_file}
    delete_markers(env, T)
    assert content(env) == {}


@pytest.mark.parametrize("type", TYPES)
def test_announcing_again_does_no_harm(env: Env, type: MarkerType) -> None:
    for _ in range(2):
        announce(env, T, ALL, type=type)
    assert load_markers(env, T) == Markers(ALL)


def test_batches_get_different_numbers(env: Env) -> None:
    for number, marker in ((0, BASE), (0, LOG), (1, ROOT)):
        announce(env, T, [marker], type=MarkerType.BATCHED, number=number)
    assert [name for name in content(env) if name != "MARKERS.type"] == [
        "MARKERS0",
        "MARKERS1",
        "MARKERS2",
    ]
    assert load_markers(env, T) == Markers(ALL)


def test_type_file_is_written_before_batches() -> None:
    traced = TracedStorage(memory())
    announce(Env(traced), T, ALL, type=MarkerType.BATCHED)
    assert [(o.verb, o.path.rpartition("/")[2]) for o in traced.operations] == [
        ("create", "MARKERS.type"),
        ("create", "MARKERS0"),
    ]


@pytest.mark.parametrize("type", TYPES)
def test_no_store_operation_if_nothing_to_announce(type: MarkerType) -> None:
    traced = TracedStorage(memory())
    announce(Env(traced), T, [], type=type)
    assert not traced.operations


def test_both_layouts_are_read_side_by_side(env: Env) -> None:
    announce(env, T, [BASE], type=MarkerType.DIRECT)
    announce(env, T, [LOG, ROOT], type=MarkerType.BATCHED)
    assert load_markers(env, T) == Markers(ALL)
    env.storage.delete(f"{DIRECTORY}/MARKERS.type")
    assert load_markers(env, T) == Markers(ALL)


def test_a_partition_with_a_line_break_has_direct_markers(env: Env) -> None:
    marker = MarkerName(f"p=a\nb/c3-0_0-1-2_{T}.parquet", MarkerKind.CREATE)
    announce(env, T, [marker], type=MarkerType.DIRECT)
    assert load_markers(env, T) == Markers((marker,))
    with pytest.raises(hoodoo.HoodooError, match="line break"):
        announce(env, T, [marker], type=MarkerType.BATCHED)


def test_foreign_markers_are_reported_and_not_acted_on(
    env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    announce(env, T, ALL, type=MarkerType.BATCHED)
    others = [
        "city=rome/b2-0_0-1-2_20250101000000000.parquet.marker.CREATE",  # another instant's
        ".hoodie/hoodie.properties.marker.CREATE",  # no data file
        f".hoodie/metadata/files/files-0000-0_0-1-2_{T}.hfile.marker.CREATE",  # of another table
        f"../t2/b2-0_0-1-2_{T}.parquet.marker.CREATE",  # not in the table
        f"city=rome//b2-0_0-1-2_{T}.parquet.marker.MERGE",
        "garbage",
    ]
    files = {"finalize.json": b"{}", "city=rome/x.marker.tmp": b""}
    fill(env, {"MARKERS7": "\n".join(others).encode(), **files})
    with caplog.at_level(logging.WARNING, "hoodoo.concurrency"):
        found = load_markers(env, T)
    assert found.files == ALL
    assert len(found.foreign) == len(others) + len(files)
    for text in (*others, *files):
        assert any(text in told for told in found.foreign), text
    assert "finalize.json" in caplog.text
    delete_markers(env, T)
    assert content(env) == {}


def test_appends_of_old_tables_are_no_new_files(env: Env) -> None:
    append = "city=rome/b2-0_0-1-2_20250101000000000.parquet.marker.APPEND"
    fill(env, {append: b"", f"{ROOT}": b""})
    found = load_markers(env, T)
    assert [str(marker) for marker in found.files] == [str(ROOT), append]
    assert found.paths == {ROOT.data_file}


def test_no_directory_means_no_markers(env: Env) -> None:
    assert load_markers(env, T) == Markers()
    delete_markers(env, T)


def test_batch_deleted_meanwhile_counts_as_empty() -> None:
    inner = memory()

    def delete_first(verb: str, path: str) -> None:
        if verb == "read":
            inner.delete(path)

    env = Env(TracedStorage(inner, before=delete_first))
    announce(env, T, ALL, type=MarkerType.BATCHED)
    assert load_markers(env, T) == Markers()


def test_traces_list_instants_with_markers(env: Env) -> None:
    later = InstantTime("20260102030405999")
    announce(env, later, [ROOT], type=MarkerType.DIRECT)
    announce(env, T, ALL, type=MarkerType.BATCHED)
    env.storage.put(".hoodie/.temp/other/file", b"")
    assert sorted(list_hoodie_directory(env, TimelinePaths.of(2)).instants_with_markers) == [
        T,
        later,
    ]
    delete_markers(env, later)
    assert sorted(list_hoodie_directory(env, TimelinePaths.of(2)).instants_with_markers) == [T]


@pytest.mark.parametrize("type", TYPES)
def test_no_empty_directories_stay(tmp_path: Path, type: MarkerType) -> None:
    env = Env(LocalStorage(str(tmp_path)))
    announce(env, T, ALL, type=type)
    delete_markers(env, T)
    assert list((tmp_path / ".hoodie/.temp").iterdir()) == []


class Crash(BaseException):
    """The process is gone: not one more operation."""


def crash_at(inner: MemoryStorage, at: int) -> TracedStorage:
    """A storage on which the operation numbered `at`, and all after it, do not happen."""
    done = count()

    def before(verb: str, path: str) -> None:
        if next(done) >= at:
            raise Crash

    return TracedStorage(inner, before=before)


def as_apache_hudi_reads(env: Env) -> set[str]:
    """What Apache Hudi 1.2.0 would roll back; fails where it does, or deletes nothing."""
    files = content(env)
    if "MARKERS.type" in files:
        assert files["MARKERS.type"] == b"TIMELINE_SERVER_BASED"
        batches = [
            data
            for name, data in files.items()
            if name.startswith("MARKERS") and "type" not in name
        ]
        return {line for data in batches for line in data.decode().splitlines()}
    assert all(name.endswith((".marker.CREATE", ".marker.MERGE")) for name in files)
    return set(files)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("foreign", [False, True])
def test_half_deleted_directories_are_read_by_apache_hudi(type: MarkerType, foreign: bool) -> None:
    points = 0
    for at in count():
        env = Env(memory())
        announce(env, T, ALL[:2], type=type)
        announce(env, T, ALL[2:], type=type, number=1)
        if foreign:
            fill(env, {"a.json": b"", "z/x.marker.tmp": b""})
        try:
            delete_markers(Env(crash_at(env.storage, at)), T)
        except Crash:
            points += 1
        else:
            break
        left = content(env)
        if {"a.json", "z/x.marker.tmp"} & set(left):
            assert load_markers(env, T).files == ALL, "foreign files go before the first marker"
        else:
            assert as_apache_hudi_reads(env) <= {str(marker) for marker in ALL}
    assert points == {MarkerType.DIRECT: 4, MarkerType.BATCHED: 4}[type] + 2 * foreign
    assert content(env) == {}


# -- a write that dies -------------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.string())])
OPTIONS = {
    "hoodie.parquet.max.file.size": 40_000,
    "hoodie.parquet.block.size": 30_000,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.parquet.bloom.filter.enabled": False,
}


def rows(ids: range, *, large: bool = False) -> pa.Table:
    partitions = [f"p{n % 2}" for n in ids]
    values = [sha256(b"%d" % n).hexdigest() if large else "" for n in ids]
    return pa.table([list(ids), partitions, values], schema=SCHEMA)


LARGE = rows(range(2990, 5_400), large=True)


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request: pytest.FixtureRequest) -> MemoryStorage:
    """A table whose rows were small, so that larger ones will not fit into the files planned."""
    storage = memory()
    made = hoodoo.create_table(
        storage.uri,
        schema=SCHEMA,
        record_key="id",
        partition_by=["p"],
        table_type=request.param,
        options=OPTIONS,
    )
    made.insert(rows(range(3000)))
    return storage


def copy_of(storage: MemoryStorage) -> MemoryStorage:
    copy = memory()
    for entry in storage.list("", recursive=True):
        copy.put(entry.path, storage.read(entry.path))
    return copy


def write(storage: MemoryStorage | TracedStorage, type: MarkerType) -> None:
    """Updates in two file groups, and new rows that roll over into several files in each."""
    options = {**OPTIONS, MARKER_TYPE.name: type.value}
    ref = open_ref(storage.uri, options, Env(storage))
    operations.write(ref, OperationType.UPSERT, LARGE, LocalEngine(threads=1))


def data_files(ref: TableRef) -> dict[InstantTime, set[str]]:
    found: dict[InstantTime, set[str]] = {}
    for entry in ref.env.storage.list("", recursive=True):
        partition, _, name = entry.path.rpartition("/")
        file = parse_data_file(PartitionPath(partition), name, 0)
        if file is not None and not entry.path.startswith(".hoodie/"):
            found.setdefault(instant_of_file(file), set()).add(entry.path)
    return found


@pytest.mark.parametrize("type", TYPES)
def test_every_file_of_a_dead_write_is_announced(table: MemoryStorage, type: MarkerType) -> None:
    most: set[str] = set()
    kinds: Counter[tuple[bool, MarkerKind]] = Counter()
    for at in count():
        storage = copy_of(table)
        try:
            write(crash_at(storage, at), type)
        except Crash:
            ref = open_ref(storage.uri, env=Env(storage))
        else:
            break
        timeline = ref.load_timeline()
        for time, files in data_files(ref).items():
            instant = timeline.find(time)
            if instant is None or instant.state is not State.COMPLETED:
                found = load_markers(ref.env, time)
                assert files <= found.paths, f"crash before operation {at}"
                most = max(most, files, key=len)
                kinds = Counter((".log." in m.data_file, m.kind) for m in found.files)
        MemoryStorage.forget(storage.uri.removeprefix("memory://"))
    print(f"{type.value}: {at} crash points, up to {len(most)} files")
    assert len(most) == 6, "two groups updated, two new ones of two files each"
    assert len([path for path in most if "-1_" in path]) == 2, "two of them rolled over"
    if any(".log." in path for path in most):
        assert kinds == {(True, MarkerKind.CREATE): 2, (False, MarkerKind.CREATE): 4}
    else:
        assert kinds == {(False, MarkerKind.MERGE): 2, (False, MarkerKind.CREATE): 4}


def test_a_base_file_for_a_key_that_comes_back_is_announced_as_a_merge(tmp_path: Path) -> None:
    """The write was planned to append a log file; its file group was there."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    place = str(tmp_path / "t")
    table = hoodoo.create_table(
        place, schema=schema, record_key="id", ordering="ts", table_type="mor"
    )
    table.insert(pa.table([["a", "b"], [5, 5]], schema=schema))
    table.delete(["a"])
    announced: list[str] = []
    storage = TracedStorage(
        LocalStorage(place),
        before=lambda verb, path: announced.append(path) if verb == "create" else None,
    )
    again = pa.table([["a"], [9]], schema=schema)
    operations.write(open_ref(place, {}, Env(storage)), OperationType.UPSERT, again, LocalEngine(1))
    bases = [path for path in announced if ".parquet.marker." in path]
    assert [path.rpartition(".")[2] for path in bases] == ["MERGE"]
