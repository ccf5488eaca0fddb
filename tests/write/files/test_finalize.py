"""Before the commit: named files must be there, announced ones that nobody names must go."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.concurrency.markers import announce
from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.errors import CommitFailed
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.files import parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId, MarkerKind, MarkerName
from hoodoo.model.paths import MARKERS, PartitionPath
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit
from hoodoo.write import operations
from hoodoo.write.files.finalize import finalize

TYPES = [MarkerType.DIRECT, MarkerType.BATCHED]
T = InstantTime("20260102030405006")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.string())])

_names = count()


def memory() -> MemoryStorage:
    return MemoryStorage(f"finalize-{next(_names)}")


def rows(ids: range, v: str = "x") -> pa.Table:
    return pa.table([list(ids), [f"p{n % 3}" for n in ids], [v] * len(ids)], schema=SCHEMA)


def make(kind: str) -> hoodoo.Table:
    return hoodoo.create_table(
        memory().uri, schema=SCHEMA, record_key="id", partition_by=["p"], table_type=kind
    )


def options(type: MarkerType) -> dict[str, object]:
    return {MARKER_TYPE.name: type.value}


def data_files(env: Env) -> set[str]:
    return {
        entry.path
        for entry in env.storage.list("", recursive=True)
        if parse_data_file(PartitionPath(""), entry.path.rpartition("/")[2], 0)
        and not entry.path.startswith(".hoodie/")
    }


class Repeating(LocalEngine):
    """Each task of a write runs twice, as if its first attempt had been lost at the very end."""

    def map(self, task: Callable[[Any], Any], items: Sequence[Any], **given: Any) -> list[Any]:
        if getattr(task, "__name__", "") != "run_handle":
            return super().map(task, items)
        super().map(task, items)
        return super().map(task, [replace(item, attempt=1) for item in items])


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_files_of_failed_attempts_go(
    kind: str, type: MarkerType, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(kind)
    table.insert(rows(range(9)))
    ref = open_ref(table.uri, options(type))
    before = data_files(ref.env)
    with caplog.at_level(logging.WARNING, "hoodoo.write"):
        done = operations.write(
            ref, OperationType.UPSERT, rows(range(3, 12), "y"), Repeating(threads=2)
        )
    instant = ref.load_timeline().find(done.instant)
    assert instant is not None
    stats = [s for _, s in read_commit(ref.env, ref.properties.timeline_paths, instant).stats()]
    written = {stat.path for stat in stats}
    assert len(written) == 3
    assert all("-1-1_" in path or path.endswith("-1-1") for path in written if path), "attempt 1"
    assert data_files(ref.env) == before | written
    assert caplog.text.count("-1-0") == 3, "each file that went is told of"
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["x"] * 3 + ["y"] * 9
    assert len(take_snapshot(ref).slices()) == 3


def stat(env: Env, name: str, data: bytes = b"1234") -> WriteStat:
    path = f"p/{name}_0-0-0_{T}.parquet"
    env.storage.create(path, data)
    return WriteStat(file_id=FileId(name), path=path, file_size_in_bytes=len(data))


def marker(path: str) -> MarkerName:
    return MarkerName(path, MarkerKind.CREATE)


@pytest.mark.parametrize("type", TYPES)
def test_finalize_deletes_only_announced_uncommitted_files(type: MarkerType) -> None:
    env = Env(TracedStorage(memory()))
    kept, stray = stat(env, "a-0"), stat(env, "b-0")
    stat(env, "c-0")  # of this instant, and not announced: not ours to judge here
    changes = f"p/.a-0_{T}.log.1_0-0-0.cdc"
    env.storage.create(changes, b"")
    never_made = f"p/d-0_0-0-0_{T}.parquet"
    told = [marker(path) for path in (kept.path, stray.path, changes, never_made) if path]
    announce(env, T, told, type=type)
    finalize(env, T, [replace(kept, cdc_stats={changes: 0})])
    assert data_files(env) == {kept.path, f"p/c-0_0-0-0_{T}.parquet", changes}


@pytest.mark.parametrize("data", [None, b"12345"], ids=["gone", "another size"])
def test_a_write_whose_file_is_not_as_written_fails(data: bytes | None) -> None:
    env = Env(memory())
    first, second, stray = stat(env, "a-0"), stat(env, "b-0"), stat(env, "c-0")
    announce(env, T, [marker(str(stray.path))], type=MarkerType.DIRECT)
    assert second.path is not None
    env.storage.delete(second.path)
    if data is not None:
        env.storage.create(second.path, data)
    with pytest.raises(CommitFailed, match="b-0"):
        finalize(env, T, [first, second])
    assert stray.path in data_files(env), "the rollback of the write takes it"


@pytest.mark.parametrize("type", TYPES)
def test_how_many_operations(type: MarkerType) -> None:
    traced = TracedStorage(memory())
    env = Env(traced)
    stats = [stat(env, f"{n}-0") for n in range(5)]
    traced.clear()
    announce(env, T, [marker(str(s.path)) for s in stats], type=type)
    batched = type is MarkerType.BATCHED
    assert traced.counts() == {"create": 2 if batched else 5}
    traced.clear()
    finalize(env, T, stats)
    assert traced.counts() == Counter(stat=5, list=1, read=1 if batched else 0) + Counter()
    traced.clear()
    finalize(env, T, stats[:3])
    assert traced.counts()["delete"] == 2


@pytest.mark.parametrize(("type", "expected"), [(TYPES[0], 3), (TYPES[1], 2)])
def test_how_many_operations_a_write_needs_to_announce(type: MarkerType, expected: int) -> None:
    table = make("cow")
    traced = TracedStorage(open_ref(table.uri).env.storage)
    ref = open_ref(table.uri, options(type), Env(traced))
    assert (
        operations.write(ref, OperationType.INSERT, rows(range(9)), LocalEngine()).stats.files == 3
    )
    found = Counter(o.verb for o in traced.operations if o.path.startswith(f"{MARKERS}/"))
    assert found["create"] + found["put"] == expected


@pytest.mark.parametrize("type", TYPES)
def test_deleting_partitions_announces_nothing(type: MarkerType) -> None:
    table = make("cow")
    table.insert(rows(range(9)))
    traced = TracedStorage(open_ref(table.uri).env.storage)
    ref = open_ref(table.uri, options(type), Env(traced))
    operations.write(ref, OperationType.DELETE_PARTITION, ["p=p1"], LocalEngine())
    made = [o for o in traced.operations if o.path.startswith(MARKERS) and o.verb == "create"]
    assert not made
    assert set(table.to_arrow()["p"].to_pylist()) == {"p0", "p2"}
