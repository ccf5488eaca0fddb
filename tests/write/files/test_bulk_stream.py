"""Rows streamed into new file groups: where they land, when they are seen, what memory holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodoo
from hoodoo.errors import CommitFailed, SchemaMismatch
from hoodoo.format.schema import PARTITION_PATH, avro_from_arrow, with_meta_fields
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import new_file_id
from hoodoo.read.base_files import build_read_rule
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine, StopSignal
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write.commit.begin import begin
from hoodoo.write.execute import PhaseTimer, execute
from hoodoo.write.files import bulk_insert
from hoodoo.write.files.base_files import BaseFiles
from hoodoo.write.files.bulk_insert import HASH, StreamTask, write_stream
from hoodoo.write.files.context import WriteContext
from hoodoo.write.planning.assignment import Assignment

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.string())])
FULL = with_meta_fields(SCHEMA)
T = InstantTime("20260102030405006")
_names = count()


def make(**options: object) -> TableRef:
    uri = MemoryStorage(f"stream-{next(_names)}").uri
    hoodoo.create_table(uri, schema=SCHEMA, record_key="id", partition_by="p")
    return open_ref(uri, options)


def batch(ids: Iterable[int], parts: int = 3) -> pa.Table:
    numbers = np.fromiter(ids, np.int64)
    columns = {
        "v": pa.array([f"v{n}" for n in numbers]),
        "p": pa.array([f"p{n % parts}" for n in numbers]),
        "id": pa.array(numbers.astype(np.int32)),  # not yet as the table has it
        HASH: pa.array(numbers * 7919),
    }
    return pa.table(columns)


def context(ref: TableRef) -> WriteContext:
    return WriteContext(
        ref=ref,
        requested_time=T,
        by_key=False,
        schema=SCHEMA,
        schema_json=avro_from_arrow(SCHEMA, "t"),
        read_rule=build_read_rule(ref.properties, FULL, tuple(FULL.names)),
        write_id="w",
    )


def load(ref: TableRef, *streams: list[pa.Table]) -> list[WriteStat]:
    """A bulk insert of some streams."""
    written: list[WriteStat] = []

    def stage(shared: WriteContext, stop: StopSignal) -> list[WriteStat]:
        for number, batches in enumerate(streams):
            written.extend(write_stream(StreamTask(shared, number), batches))
        return written

    assignment = Assignment(OperationType.BULK_INSERT, take_snapshot(ref), SCHEMA)
    execute(ref, assignment, stage, LocalEngine(), PhaseTimer(ref.env))
    return written


def data_files(env: Env) -> list[str]:
    found = (entry.path for entry in env.storage.list("", recursive=True))
    return [path for path in found if path.endswith(".parquet")]


def rows_of(ref: TableRef) -> dict[int, tuple[str, str]]:
    read = hoodoo.open_table(ref.uri).to_arrow(columns=["id", "p", "v"])
    assert read.num_rows == len(set(read["id"].to_pylist()))
    return {row["id"]: (row["p"], row["v"]) for row in read.to_pylist()}


def test_rows_land_in_a_file_group_of_their_partition() -> None:
    ref = make()
    streams = [[batch(range(10)), batch(range(10, 30))], [batch(range(30, 60))]]
    stats = load(ref, *streams)
    assert rows_of(ref) == {n: (f"p{n % 3}", f"v{n}") for n in range(60)}
    assert [stat.num_inserts for stat in stats] == [10] * 6
    for stat in stats:
        assert stat.path is not None
        assert stat.path.startswith(f"{stat.partition_path}/{stat.file_id}_")
        read = pq.read_table(pa.BufferReader(ref.env.storage.read(stat.path)))
        assert set(read[PARTITION_PATH].to_pylist()) == {stat.partition_path}
        assert set(read["_hoodie_file_name"].to_pylist()) == {stat.path.rpartition("/")[2]}
        assert read.num_rows == 10
    assert len({stat.file_id for stat in stats}) == 6
    seqnos = hoodoo.open_table(ref.uri).to_arrow()["_hoodie_commit_seqno"].to_pylist()
    assert len(set(seqnos)) == 60


def test_file_ids_are_derived() -> None:
    ref = make()
    first = write_stream(StreamTask(context(ref), 4, attempt=1), [batch(range(9))])
    second = write_stream(StreamTask(context(ref), 4, attempt=2), [batch(range(9))])
    other = write_stream(StreamTask(context(ref), 5, attempt=1), [batch(range(9))])
    ids = [new_file_id("w", f"4/p=p{n}") for n in range(3)]
    assert [stat.file_id for stat in first] == [stat.file_id for stat in second] == ids
    assert not {stat.file_id for stat in other} & set(ids)
    assert not {stat.path for stat in first} & {stat.path for stat in second}


def test_nothing_is_seen_before_the_last_row_has_come() -> None:
    ref = make(**{"hoodie.parquet.block.size": 1024, "hoodie.parquet.max.file.size": 8192})

    def batches() -> Iterator[pa.Table]:
        for start in range(0, 20_000, 4_000):
            yield batch(range(start, start + 4_000))
            assert not data_files(ref.env)

    stats = write_stream(StreamTask(context(ref), 0), batches())
    assert sorted(str(stat.path) for stat in stats) == data_files(ref.env)
    assert len(stats) > 6, "files roll over"


def test_nothing_is_left_of_a_stream_that_breaks_off() -> None:
    ref = make(**{"hoodie.parquet.max.file.size": 4096})

    def batches() -> Iterator[pa.Table]:
        yield batch(range(20_000))
        yield batch(range(3)).set_column(0, "v", pa.array([True, False, True]))

    with pytest.raises(SchemaMismatch):
        write_stream(StreamTask(context(ref), 0), batches())
    assert not data_files(ref.env)


def test_files_roll_over_by_measured_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_insert, "_MOST_HELD_BYTES", 1)
    ref = make(**{"hoodie.parquet.max.file.size": 30_000, "hoodie.parquet.block.size": 20_000})
    stats = load(ref, [batch(range(n, n + 500), 1) for n in range(0, 20_000, 500)])
    assert rows_of(ref) == {n: ("p0", f"v{n}") for n in range(20_000)}
    assert len(stats) > 3
    numbers = [str(stat.file_id).rpartition("-")[2] for stat in stats]
    assert numbers == [str(n) for n in range(len(stats))]
    sizes = [stat.total_write_bytes for stat in stats]
    assert max(sizes) < 60_000
    assert min(sizes[:-1]) > 20_000


def test_what_waits_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_insert, "_MOST_HELD_BYTES", 1)
    monkeypatch.setattr(bulk_insert, "_MOST_PENDING_BYTES", 100_000)
    ref = make()
    pending = []

    def batches() -> Iterator[pa.Table]:
        for start in range(0, 20_000, 1_000):
            yield batch(range(start, start + 1_000), 7)
            pending.append(sum(files.pending_bytes for files in opened))

    opened: list[BaseFiles] = []
    make_files = BaseFiles.__init__

    def noted(self: BaseFiles, *args: object, **options: object) -> None:
        make_files(self, *args, **options)  # type: ignore[arg-type]  # handed on as they came
        opened.append(self)

    monkeypatch.setattr(BaseFiles, "__init__", noted)
    stats = write_stream(StreamTask(context(ref), 0), batches())
    assert max(pending) <= 100_000
    assert len(opened) == 7
    groups = [
        pq.ParquetFile(pa.BufferReader(ref.env.storage.read(str(stat.path)))).num_row_groups
        for stat in stats
    ]
    assert max(groups) > 1
    assert sum(stat.num_writes for stat in stats) == 20_000


def test_no_rows_no_files() -> None:
    ref = make()
    assert write_stream(StreamTask(context(ref), 0), []) == ()
    assert write_stream(StreamTask(pending(ref), 1), [batch(())]) == ()
    assert not data_files(ref.env)


def test_a_stream_that_runs_again_goes_through_its_rows_only_to_compare_them() -> None:
    ref = make()
    shared = pending(ref)
    stats = write_stream(StreamTask(shared, 0, 1), [batch(range(9)), batch(range(9, 12))])
    assert write_stream(StreamTask(shared, 0, 2), [batch(range(11, -1, -1))]) == stats
    assert data_files(ref.env) == sorted(str(stat.path) for stat in stats)
    with pytest.raises(CommitFailed, match="not deterministic"):
        write_stream(StreamTask(shared, 0, 3), [batch(range(11))])


def pending(ref: TableRef) -> WriteContext:
    """The context of a write that has begun, on an engine that repeats tasks."""
    begun = begin(ref, Assignment(OperationType.BULK_INSERT, take_snapshot(ref), SCHEMA))
    begun.attempt.heartbeat.stop()
    return replace(context(ref), requested_time=begun.time, repeats=True)
