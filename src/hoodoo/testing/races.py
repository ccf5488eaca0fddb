"""The part of the storage contract in which threads race for one object."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from hoodoo.errors import AlreadyExists, NotFound, PreconditionFailed
from hoodoo.storage.storage import Storage, Version

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
            except AlreadyExists:
                return None
            return me

        (winner,) = [outcome for outcome in self._race(close) if outcome is not None]
        assert storage.read("race") == _content(winner)

    def test_no_increment_is_lost(self, storage: Storage) -> None:
        storage.create("counter", b"0")

        def count(_: int) -> int:
            done = 0
            while done < self.rounds:
                before = storage.stat("counter")
                value = int(storage.read("counter"))
                # The etag was read before the value, so a match vouches for the value.
                try:
                    storage.replace("counter", b"%d" % (value + 1), if_match=before.etag)
                except PreconditionFailed:
                    continue
                done += 1
            return done

        total = sum(self._race(count))
        assert total == self.threads * self.rounds
        assert int(storage.read("counter")) == total

    def test_a_version_is_of_one_moment(self, storage: Storage) -> None:
        etag = storage.create("moving", b"start").etag
        written = {etag: b"start"}
        seen: dict[Version, None] = {}
        ended = threading.Event()

        def watch() -> None:
            while not ended.is_set():
                seen[storage.read_version("moving")] = None

        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(watch)
            try:
                for number in itertools.count():
                    if number >= self.rounds * 10 and (len(seen) > 3 or watcher.done()):
                        break
                    data = b"%d " % number * 500
                    etag = storage.replace("moving", data, if_match=etag).etag
                    written[etag] = data
            finally:
                ended.set()
            watcher.result()
        for version in seen:
            assert version.data == written[version.etag]

    def test_replace_never_revives_a_deleted_object(self, storage: Storage) -> None:
        storage.create("d/a", b"0")
        storage.create("d/keep", b"")
        ended = threading.Event()

        def replace(_: int) -> None:
            while not ended.is_set():
                try:
                    storage.replace("d/a", b"1", if_match=storage.stat("d/a").etag)
                except (NotFound, PreconditionFailed):
                    continue

        with ThreadPoolExecutor(2) as pool:
            racers = [pool.submit(replace, me) for me in range(2)]
            try:
                for number in range(self.rounds * 10):
                    storage.delete("d/a")
                    storage.create("d/a", b"new %d" % number)  # AlreadyExists: it was revived
            finally:
                ended.set()
            for racer in racers:
                racer.result()

    def test_a_large_object_appears_whole(self, storage: Storage) -> None:
        size = self.large_bytes
        contents = [bytes([letter]) * size for letter in (b"a"[0], b"b"[0])]
        seen, ended = threading.Event(), threading.Event()

        def watch(_: int) -> None:
            while not ended.is_set():
                try:
                    data = storage.read("big")
                except NotFound:
                    continue
                assert data in contents
                seen.set()

        with ThreadPoolExecutor(2) as pool:
            watchers = [pool.submit(watch, me) for me in range(2)]
            try:
                storage.create("big", contents[0])
                assert seen.wait(timeout=60)
                for number in range(3):
                    storage.put("big", contents[number % 2])
                storage.delete("big")
                with storage.open_write("big") as stream:
                    for start in range(0, size, MEGABYTE):
                        stream.write(contents[0][start : start + MEGABYTE])
            finally:
                ended.set()
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
    except AlreadyExists:
        return None
    return me
