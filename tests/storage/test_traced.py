"""The storage contract through a trace, and the trace."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from hoodoo.errors import ObjectExists, ObjectNotFound, PreconditionFailed
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.storage import Storage
from hoodoo.storage.traced import TracedOperation, TracedStorage
from hoodoo_testing.storage_contract import StorageContract


@pytest.fixture
def traced(request: pytest.FixtureRequest) -> Iterator[TracedStorage]:
    name = str(id(request.node))
    yield TracedStorage(MemoryStorage(name))
    MemoryStorage.forget(name)


class TestTracedStorage(StorageContract):
    rounds = 2

    @pytest.fixture
    def storage(self, traced: TracedStorage) -> Storage:
        return traced


def test_every_operation_is_recorded(traced: TracedStorage) -> None:
    etag = traced.create("d/a", b"123").etag
    traced.put("b", b"4")
    traced.replace("d/a", b"56", if_match=etag)
    traced.read("d/a")
    traced.read("d/a", 1)
    traced.read_version("d/a")
    traced.open_read("d/a").close()
    list(traced.list("d"))
    traced.list_directories("")
    traced.stat("b")
    traced.exists("c")
    traced.delete("b")
    with traced.open_write("e") as stream:
        stream.write(b"7890")
    assert traced.operations == [
        TracedOperation("create", "d/a", 3),
        TracedOperation("put", "b", 1),
        TracedOperation("replace", "d/a", 2),
        TracedOperation("read", "d/a", 2),
        TracedOperation("read", "d/a", 1),
        TracedOperation("read", "d/a", 2),
        TracedOperation("open_read", "d/a", 2),
        TracedOperation("list", "d"),
        TracedOperation("list_directories", ""),
        TracedOperation("stat", "b"),
        TracedOperation("exists", "c"),
        TracedOperation("delete", "b"),
        TracedOperation("open_write", "e", 4),
    ]
    assert traced.counts()["read"] == 3
    traced.clear()
    assert traced.operations == []


def test_failures_are_recorded(traced: TracedStorage) -> None:
    traced.create("a", b"")
    stream = traced.open_write("a")
    traced.clear()
    with pytest.raises(ObjectExists):
        traced.create("a", b"1")
    with pytest.raises(ObjectNotFound):
        traced.read("b")
    with pytest.raises(PreconditionFailed):
        traced.replace("a", b"1", if_match="x")
    with pytest.raises(ObjectExists):
        stream.close()
    traced.open_write("c").discard()
    assert [(operation.verb, operation.failure) for operation in traced.operations] == [
        ("create", "ObjectExists"),
        ("read", "ObjectNotFound"),
        ("replace", "PreconditionFailed"),
        ("open_write", "ObjectExists"),
        ("open_write", "discarded"),
    ]


def test_someone_may_step_in_before_an_operation(traced: TracedStorage) -> None:
    class Crash(BaseException):
        pass

    seen: list[tuple[str, str]] = []

    def crash_at_put(verb: str, path: str) -> None:
        seen.append((verb, path))
        if verb == "put":
            raise Crash

    storage = TracedStorage(traced, before=crash_at_put)
    storage.create("a", b"")
    with pytest.raises(Crash):
        storage.put("b", b"")
    assert seen == [("create", "a"), ("put", "b")]
    assert not traced.exists("b")


def test_a_pickled_trace_starts_empty(traced: TracedStorage) -> None:
    traced.create("a", b"1")
    again = pickle.loads(pickle.dumps(traced))
    assert again.operations == []
    assert again.read("a") == b"1"
