"""What POSIX gives for durable, atomic file changes, as the local store needs it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TypeVar

from hoodoo.errors import OutcomeUnknown, PreconditionFailed
from hoodoo.storage.deadline import NEVER, Deadline
from hoodoo.storage.storage import ObjectInfo

_BUFFER_BYTES = 1 << 20
_LOCK_WITHIN_S = 30.0
_LOCK_POLL_S = 0.005
_ATTEMPTS = 20  # against others who prune a directory while we want to use it

Result = TypeVar("Result")


class Draft:
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
    draft: Draft,
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
