"""The storage contract on a disk, and what is special there: processes, crashes, errors."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodoo.errors import (
    ConfigError,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
)
from hoodoo.storage import local, open_storage
from hoodoo.storage import local as disk
from hoodoo.storage.local import LocalStorage
from hoodoo.storage.storage import Storage
from hoodoo_testing.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return open_storage(str(tmp_path / "tables" / "trips"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(str(root))


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# URIs and options


def test_plain_path_and_file_uri_open_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for uri in ("t", "./t/", f"{tmp_path}/t//", f"file://{tmp_path}/t", f"file:{tmp_path}/t/"):
        assert open_storage(uri).uri == f"file://{tmp_path}/t"


def test_percent_signs_in_paths_are_not_decoded(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/a%20b c")
    storage.create("x", b"")
    assert (tmp_path / "a%20b c" / "x").exists()
    assert open_storage(storage.uri).exists("x")


def test_options_for_a_local_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        open_storage(str(tmp_path), {"aws_secret_access_key": "hidden"})
    assert raised.value.key == "aws_secret_access_key"
    assert "hidden" not in str(raised.value)


# Processes

COUNT = """
import sys
from hoodoo.errors import PreconditionFailed
from hoodoo.storage import open_storage
storage = open_storage(sys.argv[1])
for _ in range(int(sys.argv[2])):
    while True:
        before = storage.stat("counter")
        value = int(storage.read("counter"))
        try:
            storage.replace("counter", b"%d" % (value + 1), if_match=before.etag)
            break
        except PreconditionFailed:
            pass
"""


def test_no_increment_of_any_process_is_lost(storage: LocalStorage, root: Path) -> None:
    storage.create("counter", b"0")
    processes = [python(COUNT, root, 50) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert storage.read("counter") == b"200"


CREATE = """
import sys
from hoodoo.errors import ObjectExists
from hoodoo.storage import open_storage
storage = open_storage(sys.argv[1])
won = 0
for number in range(100):
    try:
        storage.create(f"claims/{number}", sys.argv[2].encode())
        won += 1
    except ObjectExists:
        pass
print(won)
"""


def test_one_creator_of_any_process_wins(storage: LocalStorage, root: Path) -> None:
    processes = [python(CREATE, root, name) for name in ("one", "two", "three")]
    won = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(won) == 100
    owners = [storage.read(f"claims/{number}").decode() for number in range(100)]
    assert won == [owners.count(name) for name in ("one", "two", "three")]


STREAM = """
import signal, sys
from hoodoo.storage import open_storage
stream = open_storage(sys.argv[1]).open_write("part=1/big.parquet")
stream.write(b"x" * 5_000_000)
print("half written", flush=True)
signal.pause()
"""


def test_a_killed_writer_leaves_nothing_visible(storage: LocalStorage, root: Path) -> None:
    storage.create("part=1/other", b"")
    process = python(STREAM, root)
    assert process.stdout is not None
    assert process.stdout.readline() == "half written\n"
    assert storage.stale_temporaries(older_than_ms=0) == []  # its writer lives
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert [info.path for info in storage.list("", recursive=True)] == ["part=1/other"]
    assert not storage.exists("part=1/big.parquet")
    assert os.listdir(root / "part=1") == ["other"]
    storage.create("part=1/big.parquet", b"again")

    assert storage.stale_temporaries() == []  # an hour must have passed
    (left,) = storage.stale_temporaries(older_than_ms=0)
    assert (root / left).stat().st_size > 1_000_000
    storage.delete(left)
    assert files(root) == ["part=1/big.parquet", "part=1/other"]


def test_a_live_stream_is_not_stale(storage: LocalStorage) -> None:
    with storage.open_write("a") as stream:
        stream.write(b"x")
        assert storage.stale_temporaries(older_than_ms=0) == []
    assert storage.stale_temporaries(older_than_ms=0) == []


def test_temporary_files_are_hidden(storage: LocalStorage, root: Path) -> None:
    storage.create(".hoodie/.aux/hoodoo/claims/1", b"")
    with storage.open_write("a") as stream:
        stream.write(b"x")
        assert len(files(root)) == 2
        listed = list(storage.list("", recursive=True))
        assert [info.path for info in listed] == [".hoodie/.aux/hoodoo/claims/1"]
        assert storage.list_directories(".hoodie/.aux/hoodoo") == ["claims"]
    assert files(root) == [".hoodie/.aux/hoodoo/claims/1", "a"]


def test_writes_leave_no_temporary_files(storage: LocalStorage, root: Path) -> None:
    made = storage.create("d/a", b"1")
    with pytest.raises(ObjectExists):
        storage.create("d/a", b"2")
    storage.put("d/a", b"3")
    with pytest.raises(PreconditionFailed):
        storage.replace("d/a", b"4", if_match=made.etag)
    storage.replace("d/a", b"5", if_match=storage.stat("d/a").etag)
    storage.open_write("d/b").discard()
    assert files(root) == ["d/a"]


# The lock of a directory


@pytest.mark.parametrize("verb", ["put", "replace", "delete"])
def test_changes_wait_for_the_lock_of_the_directory(
    storage: LocalStorage, root: Path, verb: str
) -> None:
    etag = storage.create("d/a", b"1").etag
    actions = {
        "put": lambda: storage.put("d/a", b"2"),
        "replace": lambda: storage.replace("d/a", b"2", if_match=etag),
        "delete": lambda: storage.delete("d/a"),
    }
    descriptor = os.open(root / "d", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        thread = threading.Thread(target=actions[verb])
        thread.start()
        storage.create("d/b", b"")  # needs no lock
        thread.join(timeout=0.1)
        assert thread.is_alive()
        assert storage.read("d/a") == b"1"
    finally:
        os.close(descriptor)
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert not storage.exists("d/a") if verb == "delete" else storage.read("d/a") == b"2"


def test_the_wait_for_a_lock_is_bounded(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.create("d/a", b"1")
    monkeypatch.setattr(disk, "_LOCK_WITHIN_S", 0.05)
    descriptor = os.open(root / "d", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="lock of this directory"):
            storage.put("d/a", b"2")
    finally:
        os.close(descriptor)
    storage.put("d/a", b"2")


def test_etags_differ_within_one_tick_of_the_clock(storage: LocalStorage) -> None:
    etags = [storage.put("a", b"same size").etag for _ in range(200)]
    assert len(set(etags)) == 200


# Directories


def test_delete_removes_empty_directories(storage: LocalStorage, root: Path) -> None:
    storage.create(".hoodie/.temp/001/p=1/q=2/a.marker", b"")
    storage.create(".hoodie/.heartbeat/001", b"")
    storage.create("p=1/q=2/a.parquet", b"")
    storage.create("p=1/keep", b"")
    for info in list(storage.list("", recursive=True)):
        if info.path != "p=1/keep":
            storage.delete(info.path)
    directories = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()]
    assert sorted(d for d in directories if not d.startswith(".hoodie/.aux/")) == [
        ".hoodie",
        ".hoodie/.aux",
        ".hoodie/.heartbeat",
        ".hoodie/.temp",
        "p=1",
    ]


def test_creates_and_deletes_race_for_a_directory(storage: LocalStorage) -> None:
    failures: list[BaseException] = []

    def churn(me: int) -> None:
        try:
            for number in range(100):
                storage.create(f"x/y/{me}-{number}", b"")
                storage.put(f"x/y/{me}", b"")
                storage.delete(f"x/y/{me}-{number}")
                storage.delete(f"x/y/{me}")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=churn, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(storage.list("", recursive=True)) == []
    assert storage.list_directories("") == [".hoodie"]


def test_foreign_files_do_not_disturb(storage: LocalStorage, root: Path) -> None:
    storage.create("a", b"1")
    (root / "empty").mkdir()
    (root / "link").symlink_to(root / "a")
    (root / "dangling").symlink_to(root / "absent")
    os.mkfifo(root / "fifo")
    with open(os.fsencode(root) + b"/not-\xff-utf8", "wb"):
        pass
    assert [info.path for info in storage.list("", recursive=True)] == ["a", "link"]
    assert storage.read("link") == b"1"


# Errors


def test_object_with_the_name_of_a_directory_is_refused(storage: LocalStorage) -> None:
    storage.create("d/a", b"1")
    for action in (
        lambda: storage.create("d", b""),
        lambda: storage.put("d", b""),
        lambda: storage.create("d/a/b", b""),
        lambda: storage.put("d/a/b", b""),
    ):
        with pytest.raises(StorageError) as raised:
            action()
        assert type(raised.value) is StorageError
    with pytest.raises(ObjectNotFound, match="directory"):
        storage.stat("d")
    with pytest.raises(ObjectNotFound, match="directory"):
        storage.open_read("d")
    assert [info.path for info in storage.list("", recursive=True)] == ["d/a"]


def test_too_long_name_is_a_storage_error(storage: LocalStorage) -> None:
    name = "n" * 300
    for action in (
        lambda: storage.create(name, b""),
        lambda: storage.put(f"{name}/x", b""),
        lambda: storage.stat(name),
        lambda: storage.delete(name),
    ):
        with pytest.raises(StorageError, match="File name too long"):
            action()
    assert list(storage.list("", recursive=True)) == []


def test_base_that_is_a_file_lists_nothing_and_refuses_writes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = LocalStorage(str(tmp_path / "file"))
    assert list(storage.list("")) == []
    with pytest.raises(StorageError, match="Not a directory"):
        storage.create("a", b"")


FULL_DISK = """
import resource, sys
from hoodoo.errors import OutcomeUnknown, StorageError
from hoodoo.storage import open_storage
storage = open_storage(sys.argv[1])
storage.create("small", b"1")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
failures = []
for verb in (storage.create, storage.put):
    try:
        verb("big", b"x" * 2_000_000)
    except StorageError as failure:
        failures.append(failure)
try:
    storage.replace("small", b"x" * 2_000_000, if_match=storage.stat("small").etag)
except StorageError as failure:
    failures.append(failure)
try:
    with storage.open_write("big") as stream:
        for _ in range(4):
            stream.write(b"x" * 1_000_000)
except StorageError as failure:
    failures.append(failure)
assert [type(failure) for failure in failures] == [StorageError] * 4, failures
print(failures[0])
"""


def test_a_write_that_the_disk_refuses_leaves_nothing(storage: LocalStorage, root: Path) -> None:
    """A limit on file sizes fails the write half-way, as a full disk does."""
    process = python(FULL_DISK, root)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output == "big: File too large\n"
    assert files(root) == ["small"]
    assert storage.read("small") == b"1"


def test_read_only_place_is_a_storage_error() -> None:
    storage = LocalStorage("/proc/hoodoo-table")
    for action in (
        lambda: storage.create("a", b""),
        lambda: storage.put("a", b""),
        lambda: storage.open_write("a"),
    ):
        with pytest.raises(StorageError) as raised:
            action()
        assert type(raised.value) is StorageError


def test_missing_permission_is_a_storage_error(storage: LocalStorage, root: Path) -> None:
    etag = storage.create("d/a", b"").etag
    (root / "d").chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may do everything
    try:
        for action in (
            lambda: storage.read("d/a"),
            lambda: storage.stat("d/a"),
            lambda: storage.exists("d/a"),
            lambda: storage.list("d"),
            lambda: storage.list("", recursive=True),
            lambda: storage.create("d/b", b""),
            lambda: storage.put("d/a", b""),
            lambda: storage.replace("d/a", b"", if_match=etag),
            lambda: storage.delete("d/a"),
        ):
            with pytest.raises(StorageError, match="Permission denied") as raised:
                action()
            assert type(raised.value) is StorageError
    finally:
        os.seteuid(user)
        (root / "d").chmod(0o755)
    assert storage.read("d/a") == b""


def test_a_directory_that_keeps_vanishing_is_made_again(tmp_path: Path) -> None:
    directory = tmp_path / "x" / "y"
    attempts: list[bool] = []

    def write() -> str:
        attempts.append(directory.exists())
        if len(attempts) < 5:
            if directory.exists():
                directory.rmdir()
            (directory / "file").touch()
        return "done"

    assert disk.retry_with_directory(write, making=str(directory)) == "done"
    assert attempts == [False, True, True, True, True]


def test_checksum_files_of_hadoop_go_with_the_file_that_they_are_about(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    checksum = tmp_path / "d" / ".file.crc"

    def written_by_hadoop() -> str:
        etag = storage.put("d/file", b"old").etag
        storage.put("d/other", b"")
        checksum.write_bytes(b"crc")
        return etag

    written_by_hadoop()
    storage.put("d/file", b"new")
    assert not checksum.exists()
    storage.replace("d/file", b"newer", if_match=written_by_hadoop())
    assert not checksum.exists()
    written_by_hadoop()
    storage.delete("d/file")
    assert not checksum.exists()


# A disk that does not sync, or not in time


class FailingDisk:
    """`fsync` as it is on a disk that fails, or refuses only, to sync directories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails = False
        self.synced: list[str] = []
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            if self.fails:
                raise OSError(errno.EIO, "Input/output error")
            self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._fsync(descriptor)


@pytest.fixture
def disk_that_fails(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


@pytest.mark.parametrize("way", ["create", "open_write", "replace"])
def test_no_refusal_before_what_is_there_is_synced(
    storage: LocalStorage, root: Path, disk_that_fails: FailingDisk, way: str
) -> None:
    """Whoever tries again after a failed sync takes its own bytes for safe when it finds them."""
    etag = storage.create("d/old", b"1").etag
    streams = [storage.open_write("d/new") for _ in range(3)]

    def write() -> None:
        match way:
            case "create":
                storage.create("d/new", b"mine")
            case "replace":
                storage.replace("d/old", b"mine", if_match=etag)
            case "open_write":
                stream = streams.pop()
                stream.write(b"mine")
                stream.close()

    disk_that_fails.fails = True
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="not synced"):
            write()
        assert storage.read("d/old" if way == "replace" else "d/new") == b"mine"
    disk_that_fails.fails = False
    disk_that_fails.synced.clear()
    with pytest.raises(PreconditionFailed if way == "replace" else ObjectExists):
        write()
    assert str(root / "d") in disk_that_fails.synced


def test_no_refusal_before_a_version_that_came_meanwhile_is_synced(
    storage: LocalStorage, root: Path, disk_that_fails: FailingDisk
) -> None:
    """It comes after the first look at the etag, and before the lock of the directory is had."""
    for fails, expected in ((True, OutcomeUnknown), (False, PreconditionFailed)):
        etag = storage.put("d/a", b"1").etag
        outcomes: list[StorageError] = []
        descriptor = os.open(root / "d", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            thread = _start_thread(
                lambda etag=etag: storage.replace("d/a", b"2", if_match=etag), outcomes
            )
            _wait_until(lambda: any((root / local.TEMPORARY).iterdir()))
            (root / "other").write_bytes(b"3")
            os.rename(root / "other", root / "d" / "a")
            disk_that_fails.fails = fails
            disk_that_fails.synced.clear()
        finally:
            os.close(descriptor)
        thread.join(timeout=30)
        disk_that_fails.fails = False
        assert [type(outcome) for outcome in outcomes] == [expected]
        assert (str(root / "d") in disk_that_fails.synced) == (not fails)
        assert storage.read("d/a") == b"3"


def test_a_delete_that_was_not_synced_is_not_done_the_next_time(
    storage: LocalStorage, root: Path, disk_that_fails: FailingDisk
) -> None:
    storage.create("d/a", b"1")
    storage.create("d/keep", b"")
    disk_that_fails.fails = True
    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="not synced"):
            storage.delete("d/a")
    disk_that_fails.fails = False
    disk_that_fails.synced.clear()
    storage.delete("d/a")
    assert disk_that_fails.synced == [str(root / "d")]
    assert not storage.exists("d/a")


def test_a_disk_that_is_slow_publishes_nothing_after_the_deadline(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = storage.create("d/a", b"1").etag
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        time.sleep(0.2)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    for action in (
        lambda: storage.create("d/b", b"2", within_s=0.1),
        lambda: storage.replace("d/a", b"2", if_match=etag, within_s=0.1),
    ):
        with pytest.raises(StorageError, match="time for it ran out") as raised:
            action()
        assert type(raised.value) is StorageError
    assert [info.path for info in storage.list("", recursive=True)] == ["d/a"]
    assert storage.read("d/a") == b"1"
    assert storage.stale_temporaries(older_than_ms=0) == []


def test_the_wait_for_a_lock_counts_for_the_deadline(storage: LocalStorage, root: Path) -> None:
    etag = storage.create("d/a", b"1").etag
    outcomes: list[StorageError] = []
    descriptor = os.open(root / "d", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        thread = _start_thread(
            lambda: storage.replace("d/a", b"2", if_match=etag, within_s=0.2), outcomes
        )
        time.sleep(0.4)
    finally:
        os.close(descriptor)
    thread.join(timeout=30)
    assert [type(outcome) for outcome in outcomes] == [StorageError]
    assert storage.read("d/a") == b"1"


def _start_thread(action: Callable[[], object], failures: list[StorageError]) -> threading.Thread:
    def run() -> None:
        try:
            action()
        except StorageError as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)
