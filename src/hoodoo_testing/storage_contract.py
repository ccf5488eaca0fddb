"""What every `Storage` must do: subclass `StorageContract` and give it a `storage` fixture.

`StorageRaces` is the part in which threads race for one object.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodoo.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StorageError,
    UnusablePath,
)
from hoodoo.model.paths import join
from hoodoo.storage.storage import ObjectVersion, Storage

# -- threads that race for one object --------------------------------------------------------------


MEGABYTE = 1 << 20


class StorageRaces:
    """`threads` race for an object, `rounds` times; large ones have `large_bytes`."""

    threads = 8
    rounds = 10
    large_bytes = 12 * MEGABYTE

    def test_one_creator_wins(self, storage: Storage) -> None:
        for number in range(self.rounds):
            path = f"race/{number}"
            outcomes = self._race(partial(_try_create, storage, path))
            (winner,) = [outcome for outcome in outcomes if outcome is not None]
            assert storage.read(path) == _content(winner)

    def test_one_stream_wins(self, storage: Storage) -> None:
        def close(me: int) -> int | None:
            stream = storage.open_write("race")
            stream.write(_content(me))
            try:
                stream.close()
            except ObjectExists:
                return None
            return me

        (winner,) = [outcome for outcome in self._race(close) if outcome is not None]
        assert storage.read("race") == _content(winner)

    def test_no_increment_is_lost(self, storage: Storage) -> None:
        storage.create("counter", b"0")

        def count(_: int) -> int:
            increments = 0
            while increments < self.rounds:
                before = storage.stat("counter")
                value = int(storage.read("counter"))
                # The etag was read before the value, so a match vouches for the value.
                try:
                    storage.replace("counter", b"%d" % (value + 1), if_match=before.etag)
                except PreconditionFailed:
                    continue
                increments += 1
            return increments

        total = sum(self._race(count))
        assert total == self.threads * self.rounds
        assert int(storage.read("counter")) == total

    def test_a_version_is_of_one_moment(self, storage: Storage) -> None:
        etag = storage.create("moving", b"start").etag
        data_by_etag = {etag: b"start"}
        versions: dict[ObjectVersion, None] = {}
        end = threading.Event()

        def watch() -> None:
            while not end.is_set():
                versions[storage.read_version("moving")] = None

        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(watch)
            try:
                for number in itertools.count():
                    if number >= self.rounds * 10 and (len(versions) > 3 or watcher.done()):
                        break
                    data = b"%d " % number * 500
                    etag = storage.replace("moving", data, if_match=etag).etag
                    data_by_etag[etag] = data
            finally:
                end.set()
            watcher.result()
        for version in versions:
            assert version.data == data_by_etag[version.etag]

    def test_replace_never_revives_a_deleted_object(self, storage: Storage) -> None:
        storage.create("d/a", b"0")
        storage.create("d/keep", b"")
        end = threading.Event()

        def replace(_: int) -> None:
            while not end.is_set():
                try:
                    storage.replace("d/a", b"1", if_match=storage.stat("d/a").etag)
                except (ObjectNotFound, PreconditionFailed):
                    continue

        with ThreadPoolExecutor(2) as pool:
            racers = [pool.submit(replace, me) for me in range(2)]
            try:
                for number in range(self.rounds * 10):
                    storage.delete("d/a")
                    storage.create("d/a", b"new %d" % number)  # ObjectExists: it was revived
            finally:
                end.set()
            for racer in racers:
                racer.result()

    def test_a_large_object_appears_whole(self, storage: Storage) -> None:
        size = self.large_bytes
        contents = [bytes([letter]) * size for letter in (b"a"[0], b"b"[0])]
        sight, end = threading.Event(), threading.Event()

        def watch(_: int) -> None:
            while not end.is_set():
                try:
                    data = storage.read("big")
                except ObjectNotFound:
                    continue
                assert data in contents
                sight.set()

        with ThreadPoolExecutor(2) as pool:
            watchers = [pool.submit(watch, me) for me in range(2)]
            try:
                storage.create("big", contents[0])
                assert sight.wait(timeout=60)
                for number in range(3):
                    storage.put("big", contents[number % 2])
                storage.delete("big")
                with storage.open_write("big") as stream:
                    for start in range(0, size, MEGABYTE):
                        stream.write(contents[0][start : start + MEGABYTE])
            finally:
                end.set()
            for watcher in watchers:
                watcher.result()

    def _race(self, run: Callable[[int], Any]) -> list[Any]:
        start = threading.Barrier(self.threads)

        def racer(me: int) -> Any:
            start.wait(timeout=30)
            return run(me)

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(racer, range(self.threads)))


def _content(writer: int) -> bytes:
    return b"writer %d " % writer * 5000


def _try_create(storage: Storage, path: str, me: int) -> int | None:
    try:
        storage.create(path, _content(me))
    except ObjectExists:
        return None
    return me


# -- one verb after another ------------------------------------------------------------------------


ODD_NAMES = [
    "city=a b/c d.txt",
    "city=a%2Fb/50%.txt",
    "day=2024-01-01T00:00:00/x+y&z=1.txt",
    "größe=é/日本.txt",
    ".hidden/_under/-dash~tilde.txt",
    "quote's/(brackets) [x] {y}.txt",
    "hash#at@/semi;comma,.txt",
]

BAD_PATHS = ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "nul\0", "\ud800"]


class StorageContract(StorageRaces):
    """Tests of a fresh, empty storage, races included."""

    @pytest.fixture
    def storage(self) -> Iterator[Storage]:
        raise NotImplementedError

    # One object

    def test_create_makes_an_object(self, storage: Storage) -> None:
        info = storage.create("a/b", b"hello")
        entry = storage.stat("a/b")
        assert (info.path, info.size_bytes, info.etag) == ("a/b", 5, entry.etag)
        assert (entry.path, entry.size_bytes) == ("a/b", 5)
        assert entry.modified_ms > 1_500_000_000_000
        assert storage.read("a/b") == b"hello"
        assert storage.exists("a/b")

    def test_create_refuses_what_is_there(self, storage: Storage) -> None:
        before = storage.create("a", b"first")
        with pytest.raises(ObjectExists) as error:
            storage.create("a", b"second")
        assert error.value.path == "a"
        assert storage.read("a") == b"first"
        assert storage.stat("a").etag == before.etag

    def test_an_absent_object(self, storage: Storage) -> None:
        storage.create("dir/a", b"x")
        for path in ("b", "dir/b", "dir", "dir/a/b", "no/such/dir"):
            assert not storage.exists(path)
            for verb in (storage.stat, storage.read, storage.read_version, storage.open_read):
                with pytest.raises(ObjectNotFound) as error:
                    verb(path)
                assert error.value.path == path

    def test_put_makes_and_overwrites(self, storage: Storage) -> None:
        first = storage.put("a/b", b"1")
        second = storage.put("a/b", b"22")
        assert storage.read("a/b") == b"22"
        assert first.etag != second.etag == storage.stat("a/b").etag

    def test_replace_changes_the_version_it_names(self, storage: Storage) -> None:
        first = storage.create("a", b"1")
        second = storage.replace("a", b"2", if_match=first.etag)
        third = storage.replace("a", b"3", if_match=second.etag)
        assert storage.read("a") == b"3"
        assert third.etag == storage.stat("a").etag
        assert len({first.etag, second.etag, third.etag}) == 3

    def test_replace_refuses_another_version(self, storage: Storage) -> None:
        first = storage.create("a", b"1")
        second = storage.put("a", b"2")
        with pytest.raises(PreconditionFailed):
            storage.replace("a", b"3", if_match=first.etag)
        assert storage.read("a") == b"2"
        storage.delete("a")
        for path in ("a", "never/was"):
            with pytest.raises(PreconditionFailed):
                storage.replace(path, b"4", if_match=second.etag)
            assert not storage.exists(path)

    def test_a_version_is_bytes_and_etag_of_one_object(self, storage: Storage) -> None:
        storage.create("d/a", b"1")
        first, info = storage.read_version("d/a"), storage.stat("d/a")
        assert (first.data, first.etag, first.modified_ms) == (b"1", info.etag, info.modified_ms)
        storage.replace("d/a", b"2", if_match=first.etag)
        with pytest.raises(PreconditionFailed):
            storage.replace("d/a", b"3", if_match=first.etag)
        second = storage.read_version("d/a")
        assert (second.data, second.etag) == (b"2", storage.stat("d/a").etag)
        storage.put("d/a", b"")
        assert storage.read_version("d/a").data == b""
        storage.delete("d/a")
        with pytest.raises(ObjectNotFound):
            storage.read_version("d/a")

    def test_writes_with_time_enough(self, storage: Storage) -> None:
        first = storage.create("a", b"1", within_s=60)
        with pytest.raises(ObjectExists):
            storage.create("a", b"2", within_s=60)
        storage.replace("a", b"3", if_match=first.etag, within_s=60)
        with pytest.raises(PreconditionFailed):
            storage.replace("a", b"4", if_match=first.etag, within_s=60)
        assert storage.read("a") == b"3"

    def test_a_listing_gives_etags_for_replace(self, storage: Storage) -> None:
        storage.create("d/a", b"1")
        (entry,) = storage.list("d")
        assert entry == storage.stat("d/a")
        storage.replace("d/a", b"2", if_match=entry.etag)
        assert storage.read("d/a") == b"2"

    def test_delete(self, storage: Storage) -> None:
        storage.create("a/b", b"1")
        storage.delete("a/b")
        assert not storage.exists("a/b")
        storage.delete("a/b")
        storage.delete("never/was")
        storage.create("a/b", b"2")
        storage.delete("a")  # a directory is not an object
        assert storage.read("a/b") == b"2"

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, None, b"0123456789"),
            (3, None, b"3456789"),
            (0, 4, b"0123"),
            (3, 4, b"3456"),
            (8, 100, b"89"),
            (0, 1 << 62, b"0123456789"),
            (10, None, b""),
            (10, 5, b""),
            (99, 1, b""),
            (99, None, b""),
            (3, 0, b""),
        ],
    )
    def test_read_of_a_range(
        self, storage: Storage, start: int, length: int | None, expected: bytes
    ) -> None:
        storage.create("a", b"0123456789")
        assert storage.read("a", start, length) == expected

    def test_read_of_a_range_of_nothing(self, storage: Storage) -> None:
        for length in (0, 1, None):
            with pytest.raises(ObjectNotFound):
                storage.read("absent", 5, length)
        storage.create("a", b"x")
        for start, length in ((-1, None), (0, -1)):
            with pytest.raises(StorageError):
                storage.read("a", start, length)

    def test_an_empty_object(self, storage: Storage) -> None:
        storage.create("d/a", b"")
        assert storage.stat("d/a").size_bytes == 0
        assert storage.read("d/a") == b""
        assert storage.read("d/a", 0, 10) == b""
        with storage.open_read("d/a") as file:
            assert file.size() == 0
            assert file.read() == b""
        for recursive in (False, True):
            assert [info.path for info in storage.list("", recursive=recursive)] == (
                ["d/a"] if recursive else []
            )
            assert [info.path for info in storage.list("d", recursive=recursive)] == ["d/a"]

    @pytest.mark.parametrize("path", ODD_NAMES)
    def test_odd_names(self, storage: Storage, path: str) -> None:
        storage.create(path, path.encode())
        with pytest.raises(ObjectExists):
            storage.create(path, b"")
        storage.replace(path, b"2", if_match=storage.stat(path).etag)
        directory, _, _ = path.rpartition("/")
        assert [info.path for info in storage.list(directory)] == [path]
        assert [info.path for info in storage.list("", recursive=True)] == [path]
        assert _directories(storage, "") == [path.split("/")[0]]
        assert storage.read(path) == b"2"
        storage.delete(path)
        assert not storage.exists(path)

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_bad_paths(self, storage: Storage, path: str) -> None:
        verbs: list[Callable[[], Any]] = [
            lambda: storage.stat(path),
            lambda: storage.exists(path),
            lambda: storage.read(path),
            lambda: storage.read_version(path),
            lambda: storage.open_read(path),
            lambda: storage.create(path, b""),
            lambda: storage.put(path, b""),
            lambda: storage.replace(path, b"", if_match="x"),
            lambda: storage.delete(path),
            lambda: storage.open_write(path),
        ]
        if path:
            verbs += [lambda: storage.list(path), lambda: storage.list_directories(path)]
        for verb in verbs:
            with pytest.raises(UnusablePath):
                verb()
        assert list(storage.list("", recursive=True)) == []

    # Listing

    def test_list_is_sorted_and_keeps_to_its_directory(self, storage: Storage) -> None:
        paths = ["a", "d-x/1", "d.x/1", "d/2", "d/1", "d/10", "d/e/f/3", "d/e-f", "d0/1", "D/1"]
        for path in paths:
            storage.create(path, b"")
        assert [info.path for info in storage.list("", recursive=True)] == sorted(paths)
        assert [info.path for info in storage.list("")] == ["a"]
        assert [info.path for info in storage.list("d")] == ["d/1", "d/10", "d/2", "d/e-f"]
        assert [info.path for info in storage.list("d", recursive=True)] == [
            "d/1",
            "d/10",
            "d/2",
            "d/e-f",
            "d/e/f/3",
        ]
        assert _directories(storage, "") == ["D", "d", "d-x", "d.x", "d0"]
        assert _directories(storage, "d") == ["e"]
        assert storage.list_directories("d/e/f") == []

    def test_list_of_what_is_no_directory(self, storage: Storage) -> None:
        storage.create("d/file", b"")
        for prefix in ("absent", "d/file", "d/fil", "d/absent/deeper"):
            assert list(storage.list(prefix)) == []
            assert list(storage.list(prefix, recursive=True)) == []
            assert storage.list_directories(prefix) == []

    def test_list_of_an_empty_storage(self, storage: Storage) -> None:
        assert list(storage.list("")) == []
        assert list(storage.list("", recursive=True)) == []
        assert storage.list_directories("") == []

    def test_list_shows_what_was_just_done(self, storage: Storage) -> None:
        for number in range(20):
            storage.create(f"d/{number:03}", b"x" * number)
            entries = list(storage.list("d"))
            assert [info.size_bytes for info in entries] == list(range(number + 1))
        for number in range(20):
            storage.delete(f"d/{number:03}")
            assert len(list(storage.list("d"))) == 19 - number

    def test_list_of_more_than_one_page(self, storage: Storage) -> None:
        paths = [f"many/{number:05}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: storage.create(path, b"x"), paths))
        assert [info.path for info in storage.list("many")] == paths
        assert [info.path for info in storage.list("", recursive=True)] == paths

    # Streams

    def test_a_stream_is_visible_when_closed(self, storage: Storage) -> None:
        stream = storage.open_write("d/a")
        assert stream.write(b"hello ") == 6
        stream.flush()
        assert stream.tell() == 6
        before = stream.closed
        assert not storage.exists("d/a")
        assert list(storage.list("", recursive=True)) == []
        assert stream.write(memoryview(b"world")) == 5
        stream.close()
        assert (before, stream.closed) == (False, True)
        assert storage.read("d/a") == b"hello world"
        stream.close()
        stream.discard()
        assert storage.read("d/a") == b"hello world"
        with pytest.raises(StorageError):
            stream.write(b"late")

    def test_a_stream_makes_a_new_object_only(self, storage: Storage) -> None:
        first, second = storage.open_write("a"), storage.open_write("a")
        first.write(b"first")
        second.write(b"second")
        second.close()
        with pytest.raises(ObjectExists):
            first.close()
        assert first.closed
        assert storage.read("a") == b"second"

    def test_a_discarded_stream_leaves_nothing(self, storage: Storage) -> None:
        stream = storage.open_write("a")
        stream.write(b"x" * MEGABYTE * 3)
        stream.discard()
        assert stream.closed
        stream.close()
        stream.discard()
        open_stream = storage.open_write("b")
        open_stream.write(b"x")
        del open_stream
        assert list(storage.list("", recursive=True)) == []

    def test_a_stream_in_a_with_block(self, storage: Storage) -> None:
        with storage.open_write("a") as stream:
            stream.write(b"kept")

        def fail() -> None:
            with storage.open_write("b") as stream:
                stream.write(b"lost")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert [info.path for info in storage.list("")] == ["a"]

    def test_parquet_goes_through_streams(self, storage: Storage) -> None:
        numbers = list(range(200_000))
        table = pa.table({"n": numbers, "text": [f"row {number}" for number in numbers]})
        with storage.open_write("t.parquet") as stream:
            pq.write_table(table, stream, row_group_size=50_000, compression="none")
        with storage.open_read("t.parquet") as file:
            assert file.size() == storage.stat("t.parquet").size_bytes > 2 * MEGABYTE
            assert pq.read_table(file) == table
        with storage.open_read("t.parquet") as file:
            column = pq.ParquetFile(file).read_row_group(2, columns=["n"])["n"]
            assert column.to_pylist() == numbers[100_000:150_000]

    def test_a_writer_that_fails_publishes_nothing(self, storage: Storage) -> None:
        table = pa.table({"n": [1, 2, 3]})

        def fail() -> None:
            with (
                storage.open_write("t.parquet") as stream,
                pq.ParquetWriter(stream, table.schema) as writer,
            ):
                writer.write_table(table)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert not storage.exists("t.parquet")

    def test_random_access(self, storage: Storage) -> None:
        data = bytes(range(256)) * (40 * 1024)  # 10 MB: more than any read-ahead
        storage.create("big", data)
        with storage.open_read("big") as file:
            for start, length in ((9_000_000, 100), (0, 10), (10, 2_000_000), (5, 9_999_999)):
                file.seek(start)
                assert file.read(length) == data[start : start + length]
                assert file.tell() == min(start + length, len(data))
            file.seek(len(data) - 4)
            assert file.read(100) == data[-4:]
            assert file.read(100) == b""
            assert file.read_at(7, 1_234_567) == data[1_234_567:1_234_574]
            file.seek(-10, 2)
            assert file.read() == data[-10:]

    # The recipe

    def test_pickles_as_a_recipe(self, storage: Storage) -> None:
        storage.create("a", b"1")
        again = pickle.loads(pickle.dumps(storage))
        assert again.uri == storage.uri
        assert again.read("a") == b"1"
        again.put("a", b"2")
        assert storage.read("a") == b"2"


def _directories(storage: Storage, prefix: str) -> list[str]:
    """The named directories that are not empty."""
    return [
        name
        for name in storage.list_directories(prefix)
        if any(storage.list(join(prefix, name), recursive=True))
    ]
