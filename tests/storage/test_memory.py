"""The storage contract in memory, and what is special there."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hoodoo.errors import StorageError
from hoodoo.storage import open_storage
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.storage import Storage
from hoodoo_testing.storage_contract import StorageContract


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self, request: pytest.FixtureRequest) -> Iterator[Storage]:
        yield open_storage(f"memory://{id(request.node)}/tables/trips")
        MemoryStorage.forget(str(id(request.node)))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.node.name
    MemoryStorage.forget(request.node.name)


def test_one_name_is_one_store_in_a_process(name: str) -> None:
    open_storage(f"memory://{name}").create("a/b", b"1")
    assert open_storage(f"memory://{name}/").read("a/b") == b"1"
    assert open_storage(f"memory://{name}/a").read("b") == b"1"
    assert not open_storage(f"memory://{name}-other").exists("a/b")


def test_a_forgotten_name_starts_anew(name: str) -> None:
    old = MemoryStorage(name)
    old.create("a", b"1")
    MemoryStorage.forget(name)
    assert not MemoryStorage(name).exists("a")
    assert old.read("a") == b"1"


def test_modification_times_come_from_the_given_clock(name: str) -> None:
    times = iter([1_000, 2_000])
    storage = MemoryStorage(name, now_ms=lambda: next(times))
    storage.create("a", b"")
    storage.create("b", b"")
    assert [info.modified_ms for info in storage.list("")] == [1_000, 2_000]


def test_memory_store_cannot_be_sent_to_another_process(name: str) -> None:
    recipe = pickle.dumps(MemoryStorage(name))
    program = f"import pickle; pickle.loads({recipe!r})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "cannot leave the process" in ended.stderr.splitlines()[-1]


def test_directories_of_a_large_store_are_listed_once(name: str) -> None:
    storage = MemoryStorage(name)
    for number in range(2_000):
        storage.put(f"dir={number % 100}/{number}", b"")
    assert len(list(storage.list("dir=7"))) == 20
    assert len(storage.list_directories("")) == 100
    with pytest.raises(StorageError):
        storage.list("dir=7/")
