"""The metadata table against directories: listing many files, and reading few of many.

On disk, on an S3 server of this machine, and on the same server as from afar: each request takes so
much longer. The first listing of a process is told apart: it imports what it needs, and connects.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import hoodoo
from bench.clock import best, side_by_side
from hoodoo.format.metadata_table.column_stats import indexed_columns
from hoodoo.metadata_table.indexes.column_stats import column_stats
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.model.commit import ColumnRange, FileRanges
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import COLUMN_STATS, FILES
from hoodoo.model.names import derived_uuid
from hoodoo.model.paths import PartitionPath
from hoodoo.read.file_listing import DirectoryLister, FileFinder
from hoodoo.read.scan import scan
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.object_stores import seaweedfs
from hoodoo_testing.tables.metadata_tables import HandMadeMetadata, make_listing

FILE_COUNT = 20_000
PARTITION_COUNT = 200
LOGS = 5
TIME = "20250101000000000"
LISTED_SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string())])

READ_PARTITIONS = 20
READ_FILES = 200
ROWS = 5_000
READ_SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])
WHERE = f"n >= {95 * READ_FILES * ROWS // 100}"

OFF = {"hoodie.metadata.enable": "false"}
NO_STATS = {"hoodie.enable.data.skipping": "false"}
ENGINE = LocalEngine(8)
AFAR_MS = 20


def run(folder: Path) -> None:
    """Print how long both take, on disk and on S3, and the ratios."""
    with seaweedfs(folder / "s3") as server:
        stores = {"disk": (str(folder), {}), "S3": (server.uri("bench"), dict(server.options))}
        for store, (place, options) in stores.items():
            _build_listed(f"{place}/listed", options)
            _show_listing(store, f"{place}/listed", options)
        _show_listing(f"S3 + {AFAR_MS} ms", f"{place}/listed", options, delay_ms=AFAR_MS)
        for store, (place, options) in stores.items():
            _build_read(f"{place}/read", options)
            _show_read(store, f"{place}/read", options)
        _show_read(f"S3 + {AFAR_MS} ms", f"{place}/read", options, delay_ms=AFAR_MS)


def _build_listed(uri: str, options: dict[str, str]) -> None:
    """A table with many base files of one byte: nobody reads them."""
    table = hoodoo.create_table(
        uri, schema=LISTED_SCHEMA, record_key="id", partition_by="p", options={**options, **OFF}
    )
    table.insert(pa.table({"id": ["x"], "p": ["0"]}, schema=LISTED_SCHEMA))
    ref = open_ref(uri, options)
    added: dict[PartitionPath, dict[str, int]] = {}
    for number in range(FILE_COUNT):
        # Files older than the first active instant count as committed.
        name = f"{derived_uuid('bench', str(number))}-0_0-0-0_{TIME}.parquet"
        added.setdefault(PartitionPath(f"p={number % PARTITION_COUNT}"), {})[name] = 1
    paths = [f"{partition}/{name}" for partition, names in added.items() for name in names]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda path: ref.env.storage.put(path, b"x"), paths))
    made = make_listing(ref)
    _add_logs(made, ref, added)


def _add_logs(
    made: HandMadeMetadata, ref: TableRef, added: dict[PartitionPath, dict[str, int]]
) -> None:
    """Some commits on top of the base file, as there are between compactions."""
    partition, names = next(iter(added.items()))
    for number in range(LOGS):
        time_ = InstantTime(f"2025010100000{number:04d}")
        made.commit(time_, {FILES: file_changes({partition: names})}, completion_time=time_)
    last = ref.load_timeline().commits.instants[-1]
    nothing = file_changes({})
    made.commit(last.requested_time, {FILES: nothing}, completion_time=last.completion_time)


def _open(uri: str, options: dict[str, str], settings: dict[str, str], delay_ms: int) -> TableRef:
    if not delay_ms:
        return open_ref(uri, {**options, **settings})
    far = TracedStorage(
        Env.of(uri, options).storage, before=lambda verb, path: time.sleep(delay_ms / 1000)
    )
    return open_ref(uri, settings, Env(far))


def _show_listing(store: str, uri: str, options: dict[str, str], delay_ms: int = 0) -> None:
    def list_all(settings: dict[str, str]) -> int:
        ref = _open(uri, options, settings, delay_ms)
        index = FileFinder(ref, ref.load_timeline(), ENGINE)
        return len(list(index.files()))

    def list_one() -> None:
        ref = _open(uri, options, {}, delay_ms)
        index = FileFinder(ref, ref.load_timeline(), ENGINE)
        assert len(list(index.files(_only_seven))) == FILE_COUNT // PARTITION_COUNT

    first = {}
    for name, settings in (("metadata table", {}), ("directories", OFF)):
        begin = time.perf_counter()
        assert list_all(settings) == FILE_COUNT + 1
        first[name] = time.perf_counter() - begin
    by_metadata, by_directories = side_by_side(lambda: list_all({}), lambda: list_all(OFF))
    one = best(list_one)
    cpu = [_cpu_seconds(partial(list_all, settings)) for settings in ({}, OFF)]
    what = f"open and list {FILE_COUNT:,} files in {PARTITION_COUNT} partitions, {store}"
    _show(f"{what}, first", first["metadata table"], first["directories"])
    _show(what, by_metadata, by_directories)
    _show("  CPU of this process", *cpu)
    _show(f"one partition of them, {store}", one, by_directories)


def _cpu_seconds(work: Callable[[], object]) -> float:
    """The least of several turns."""
    took = []
    for _ in range(5):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def _only_seven(path: PartitionPath, *, whole: bool) -> bool:
    return path == "p=7"


def _build_read(uri: str, options: dict[str, str]) -> None:
    """A table whose files have rising numbers, with statistics of them."""
    table = hoodoo.create_table(
        uri, schema=READ_SCHEMA, record_key="id", partition_by="p", options={**options, **OFF}
    )
    per_commit = READ_PARTITIONS * ROWS
    for commit in range(READ_FILES // READ_PARTITIONS):
        numbers = range(commit * per_commit, (commit + 1) * per_commit)
        columns = {
            "id": [f"{number:09d}" for number in numbers],
            "p": [f"{number // ROWS % READ_PARTITIONS:02d}" for number in numbers],
            "n": list(numbers),
        }
        table.bulk_insert(pa.table(columns, schema=READ_SCHEMA))
    ref = open_ref(uri, options)
    made = make_listing(ref)
    ranges = []
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        with ref.env.storage.open_read(file.path) as source:
            ranges.append(_ranges_of(file.partition, str(file.name), source))
    newest = ref.load_timeline().newest_time
    assert newest is not None
    columns = indexed_columns(READ_SCHEMA, configured=("n",))
    entries = column_stats(ranges, columns, READ_SCHEMA)
    made.fill(COLUMN_STATS, entries, completion_time=newest, groups=2)
    made.publish()


def _ranges_of(partition: PartitionPath, name: str, source: pa.NativeFile) -> FileRanges:
    metadata = pq.ParquetFile(source).metadata
    at = metadata.schema.names.index("n")
    groups = [metadata.row_group(n).column(at) for n in range(metadata.num_row_groups)]
    found = ColumnRange(
        column="n",
        min_value=min(group.statistics.min for group in groups),
        max_value=max(group.statistics.max for group in groups),
        null_count=0,
        value_count=metadata.num_rows,
    )
    return FileRanges(partition=partition, file_name=name, ranges=(found,))


def _show_read(store: str, uri: str, options: dict[str, str], delay_ms: int = 0) -> None:
    def read(settings: dict[str, str]) -> Callable[[], None]:
        def run_once() -> None:
            ref = _open(uri, options, settings, delay_ms)
            rows = scan(ref, ENGINE, columns=["n"], filter=WHERE)
            assert rows.num_rows == READ_FILES * ROWS // 20

        return run_once

    pruned, plain, listed = best(read({})), best(read(NO_STATS)), best(read(OFF))
    what = f"read {READ_FILES // 20} of {READ_FILES} files by a filter, {store}"
    _show(what, pruned, plain, "footers")
    _show(f"{what}, all by directories", pruned, listed, "footers")


def _show(what: str, ours: float, other: float, beside: str = "directories") -> None:
    print(f"{what:75} {ours:8.3f} s, {beside} {other:8.3f} s, ratio {ours / other:6.3f}")
