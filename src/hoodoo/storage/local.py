"""Files of this machine, for any number of threads and processes on it.

A write first makes a file below `.hoodie/.aux/hoodoo/tmp`, with a name of its own, syncs it to
disk, and then gives it the object's name in one step: `link`, which fails if the name is taken,
for new objects; `rename`, which replaces, for others. So an object is never seen half written,
and never changes under a reader who has it open. The temporary files have one place, instead of
lying beside their targets, because some of Apache Hudi's directories (markers, heartbeats) must
not hold foreign files, not even those that a killed process leaves.

Compare-and-swap needs two steps, compare and rename. They happen under an exclusive `flock` on
the *directory* of the object, which put and delete take too (create needs none: it cannot touch
an object that is there). The kernel drops the lock with the process, and no lock file exists.

When a verb returns, its effect is on disk: file, name, and directories made for it. When a write
is refused because of an object that is there, that object is on disk, too.

The functions on files are what POSIX gives for durable, atomic changes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from hoodoo.errors import (
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
    UnusablePath,
)
from hoodoo.model.paths import HOODOO_DIRECTORY, META
from hoodoo.storage.storage import NEVER, Deadline, ObjectInfo, ObjectVersion, PublishedOnExit
from hoodoo.storage.uri import check_directory, check_path, check_range, is_text

if TYPE_CHECKING:
    import pyarrow as pa


# -- durable, atomic file changes ------------------------------------------------------------------


_BUFFER_BYTES = 1 << 20
_LOCK_WITHIN_S = 30.0
_LOCK_POLL_S = 0.005
_ATTEMPTS = 20  # against others who prune a directory while we want to use it

Result = TypeVar("Result")


class TemporaryFile:
    """A file that has no name in the table yet, locked as long as its writer lives."""

    def __init__(self, directory: str) -> None:
        self.name = f"{directory}/{uuid.uuid4().hex}"
        self.file = retry_with_directory(self._open, making=directory)
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def _open(self) -> BinaryIO:
        return open(self.name, "xb", _BUFFER_BYTES)

    def seal(self) -> None:
        """Bring the content to disk."""
        self.file.flush()
        descriptor = self.file.fileno()
        # The kernel stamps files by a coarse tick. Our etags need a finer time, since an inode
        # number can come back within one tick.
        now_ns = time.time_ns()
        os.utime(descriptor, ns=(now_ns, now_ns))
        os.fsync(descriptor)
        self.status = os.fstat(descriptor)

    def info(self, path: str) -> ObjectInfo:
        """What a write answers about the object that the sealed draft became."""
        return ObjectInfo(path, self.status.st_size, 0, etag_of(self.status))

    def discard(self) -> None:
        """Drop the temporary name."""
        with suppress(OSError):  # a full disk fails the flush; the file is closed all the same
            self.file.close()
        with suppress(OSError):  # renamed; or left for `stale_temporaries`
            os.unlink(self.name)


def rename(
    draft: TemporaryFile,
    path: str,
    target: str,
    *,
    if_match: str | None = None,
    deadline: Deadline = NEVER,
) -> None:
    """Give the draft the name of an object, over the version with this etag if one is given."""
    directory, name = os.path.split(target)
    with open_directory(directory) as descriptor:
        with lock_directory(descriptor):
            fits = if_match is None or etag_of(os.stat(name, dir_fd=descriptor)) == if_match
            if fits:
                deadline.check(path)
                os.rename(draft.name, name, dst_dir_fd=descriptor)
        # The other version, too, is synced before it is told of: see `sync_existing`.
        sync(descriptor, path)
    if not fits:
        raise PreconditionFailed(path)


def unlink(name: str, directory: int) -> bool:
    """Take a file's name out of a directory; whether it was there."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def retry_with_directory(action: Callable[[], Result], *, making: str) -> Result:
    """The action's result, the directory made if it is missing (or vanishes meanwhile)."""
    for _ in range(_ATTEMPTS):
        try:
            return action()
        except FileNotFoundError:
            with suppress(FileNotFoundError):
                make_directory(making)
    return action()


def make_directory(directory: str) -> None:
    """Make a directory and those above it, on disk when this returns; it may be there."""
    parent = os.path.dirname(directory)
    try:
        with suppress(FileExistsError):
            os.mkdir(directory)
    except FileNotFoundError:
        make_directory(parent)
        with suppress(FileExistsError):
            os.mkdir(directory)
    with open_directory(parent) as descriptor:
        os.fsync(descriptor)


@contextmanager
def open_directory(directory: str) -> Iterator[int]:
    """A descriptor of the directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def lock_directory(descriptor: int) -> Iterator[None]:
    """The directory's lock, waited for in bounded time: its holder may be a stopped process."""
    deadline = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                reason = "another process keeps the lock of this directory"
                raise TimeoutError(errno.ETIMEDOUT, reason) from None
            time.sleep(_LOCK_POLL_S)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def sync(descriptor: int, path: str) -> None:
    """Bring a directory to disk in which `path` was just changed, or found changed."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _make_sync_error(path, error) from error


def sync_existing(path: str, target: str) -> None:
    """Bring an object's directory to disk before a write is refused because of that object.

    It may be the writer's own, of a call whose sync failed: whoever then finds its own bytes
    there takes them for safe.
    """
    try:
        with open_directory(os.path.dirname(target)) as descriptor:
            os.fsync(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return  # gone meanwhile
    except OSError as error:
        raise _make_sync_error(path, error) from error


def _make_sync_error(path: str, error: OSError) -> OutcomeUnknown:
    return OutcomeUnknown(path, f"there, but not synced to disk: {error.strerror}")


def is_locked(file: str) -> bool:
    """Whether a draft's writer lives."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def etag_of(status: os.stat_result) -> str:
    """A text that differs for any two versions of a file, by inode, time and size."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


# -- the store -------------------------------------------------------------------------------------


TEMPORARY = f"{HOODOO_DIRECTORY}/tmp"

_ABANDONED_MS = 60 * 60 * 1000
_MOST_NAME_BYTES = 255


class LocalStorage:
    """One directory of this machine's disk."""

    def __init__(self, root: str) -> None:
        """`root` is absolute; the first write makes it."""
        self._root = root

    @property
    def uri(self) -> str:
        return f"file://{self._root}"

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        with _translate_read_errors(prefix):
            return iter(tuple(self._walk(check_directory(prefix), recursive)))

    def list_directories(self, prefix: str) -> Sequence[str]:
        with _translate_read_errors(prefix):
            entries = self._scan(check_directory(prefix))
            return sorted(entry.name for entry in entries if entry.is_dir())

    def stat(self, path: str) -> ObjectInfo:
        with _translate_read_errors(path):
            status = os.stat(self._full(path))
        if stat.S_ISDIR(status.st_mode):
            raise ObjectNotFound(path, "is a directory")
        return _info(path, status)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except ObjectNotFound:
            return False
        return True

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        check_range(path, start, length)
        with _translate_read_errors(path), open(self._full(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if start >= size:
                return b""
            file.seek(start)
            # A length out of a damaged file must not become an allocation.
            return file.read(None if length is None else min(length, size))

    def read_version(self, path: str) -> ObjectVersion:
        with _translate_read_errors(path), open(self._full(path), "rb") as file:
            # The open file is one version, whatever gets its name meanwhile. Of a foreign writer
            # that writes in place the etag is the older one, with which a replace fails.
            info = _info(path, os.fstat(file.fileno()))
            return ObjectVersion(file.read(), info.etag, info.modified_ms)

    def open_read(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        self.stat(path)
        # A memory map reads Parquet no faster, and kills the process if the disk fails.
        with _translate_read_errors(path):
            return pa.OSFile(self._full(path), mode="rb")

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        deadline = Deadline.within(within_s)
        if self.exists(path):
            sync_existing(path, self._full(path))
            raise ObjectExists(path)
        with self._open_write(path, deadline) as stream:
            stream.write(data)
            return stream.publish()

    def put(self, path: str, data: bytes) -> ObjectInfo:
        target = self._full(path)
        with _translate_write_errors(path), self._draft(data) as draft:
            _drop_checksum(target)
            retry_with_directory(
                lambda: rename(draft, path, target), making=os.path.dirname(target)
            )
            return draft.info(path)

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        deadline, target = Deadline.within(within_s), self._full(path)
        try:
            present = self.stat(path)
        except ObjectNotFound:
            raise PreconditionFailed(path) from None
        if present.etag != if_match:
            sync_existing(path, target)
            raise PreconditionFailed(path)
        with _translate_write_errors(path), self._draft(data) as draft:
            _drop_checksum(target)
            try:
                rename(draft, path, target, if_match=if_match, deadline=deadline)
            except FileNotFoundError:
                raise PreconditionFailed(path) from None
            return draft.info(path)

    def delete(self, path: str) -> None:
        directory, name = os.path.split(self._full(path))
        with _translate_write_errors(path):
            _drop_checksum(f"{directory}/{name}")
            try:
                with open_directory(directory) as descriptor:
                    with lock_directory(descriptor):
                        was_there = unlink(name, descriptor)
                    # What is gone already may be so by a call of ours whose sync failed.
                    sync(descriptor, path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return  # no such object
        if was_there:
            self._prune(os.path.dirname(path))

    def open_write(self, path: str) -> LocalWrite:
        return self._open_write(path, NEVER)

    def _open_write(self, path: str, deadline: Deadline) -> LocalWrite:
        target = self._full(path)
        with _translate_write_errors(path):
            return LocalWrite(path, target, TemporaryFile(f"{self._root}/{TEMPORARY}"), deadline)

    def stale_temporaries(self, *, older_than_ms: int = _ABANDONED_MS) -> Sequence[str]:
        """Paths of temporary files whose writers are dead; `delete` removes them.

        A writer holds a lock on its file; the age covers the moment before it has it.
        """
        horizon_ns = time.time_ns() - older_than_ms * 1_000_000
        temporaries = []
        with _translate_read_errors(TEMPORARY):
            for entry in self._scan(TEMPORARY):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime_ns <= horizon_ns and not is_locked(entry.path):
                        temporaries.append(f"{TEMPORARY}/{entry.name}")
        return temporaries

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _scan(self, directory: str) -> Sequence[os.DirEntry[str]]:
        """Entries of a directory, without our temporary files; none if there is no such one."""
        try:
            with os.scandir(f"{self._root}/{directory}") as entries:
                entries_here = [entry for entry in entries if is_text(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        if directory == HOODOO_DIRECTORY:
            entries_here = [entry for entry in entries_here if entry.name != "tmp"]
        return entries_here

    def _walk(self, directory: str, recursive: bool) -> Iterator[ObjectInfo]:
        above = f"{directory}/" if directory else ""
        # The order of whole paths, in which "a-b" comes before "a/b".
        names = [(f"{e.name}/" if e.is_dir() else e.name, e) for e in self._scan(directory)]
        names.sort(key=lambda pair: pair[0])
        for name, entry in names:
            if name.endswith("/"):
                if recursive:
                    yield from self._walk(above + entry.name, recursive)
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # deleted meanwhile
            if stat.S_ISREG(status.st_mode):
                yield _info(above + name, status)

    @contextmanager
    def _draft(self, data: bytes) -> Iterator[TemporaryFile]:
        draft = TemporaryFile(f"{self._root}/{TEMPORARY}")
        try:
            draft.file.write(data)
            draft.seal()
            yield draft
        finally:
            draft.discard()

    def _prune(self, directory: str) -> None:
        """Remove directories that a delete left empty: object stores do not have them either.

        `.hoodie` and the directories in it stay; Apache Hudi may be about to use them.
        """
        while directory and not (directory.split("/")[0] == META and directory.count("/") < 2):
            try:
                os.rmdir(f"{self._root}/{directory}")
            except OSError:
                return  # in use, or gone already
            directory = os.path.dirname(directory)


class LocalWrite(PublishedOnExit):
    """A file in the making."""

    def __init__(self, path: str, target: str, draft: TemporaryFile, deadline: Deadline) -> None:
        self._path = path
        self._target = target
        self._draft = draft
        self._deadline = deadline
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: bytes | memoryview) -> int:
        if self._closed:
            raise StorageError(self._path, "write to a closed stream")
        with _translate_write_errors(self._path):
            return self._draft.file.write(data)

    def flush(self) -> None:
        """Nothing is visible before `close`."""

    def tell(self) -> int:
        return self._draft.file.tell()

    def close(self) -> None:
        if not self._closed:
            self.publish()

    def publish(self) -> ObjectInfo:
        """Close, and say what was made."""
        self._closed = True
        directory = os.path.dirname(self._target)
        with _translate_write_errors(self._path):
            try:
                self._draft.seal()
                self._deadline.check(self._path)  # the disk may have taken its time for that
                retry_with_directory(
                    lambda: os.link(self._draft.name, self._target), making=directory
                )
            except FileExistsError:
                if os.path.isdir(self._target):
                    raise StorageError(self._path, "a directory has this name") from None
                sync_existing(self._path, self._target)
                raise ObjectExists(self._path) from None
            finally:
                self._draft.discard()
            with open_directory(directory) as descriptor:
                sync(descriptor, self._path)
        return self._draft.info(self._path)

    def discard(self) -> None:
        if not self._closed:
            self._closed = True
            self._draft.discard()

    def __del__(self) -> None:
        self.discard()


@contextmanager
def _translate_read_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise ObjectNotFound(path) from None
    except IsADirectoryError:
        raise ObjectNotFound(path, "is a directory") from None
    except OSError as error:
        raise _failure(path, error) from error


@contextmanager
def _translate_write_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: str, error: OSError) -> StorageError:
    kind = UnusablePath if error.errno == errno.ENAMETOOLONG else StorageError
    return kind(path, error.strerror or str(error))


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    modified_ms = status.st_mtime_ns // 1_000_000
    return ObjectInfo(path, status.st_size, modified_ms, etag_of(status))


def _drop_checksum(target: str) -> None:
    """Hadoop keeps `.<name>.crc` beside each local file and refuses a file that does not fit it.

    It goes before the file changes: without one the file is simply not checked.
    """
    directory, name = os.path.split(target)
    with suppress(FileNotFoundError, NotADirectoryError):
        checksum = f".{name}.crc"
        if len(os.fsencode(checksum)) <= _MOST_NAME_BYTES:  # with a longer name there is none
            os.unlink(f"{directory}/{checksum}")
