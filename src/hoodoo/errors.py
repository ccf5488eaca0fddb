"""Every error that hoodoo raises on purpose, split by what the caller must do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hoodoo.deprecated import find_by_old_name, with_old_fields


class HoodooError(Exception):
    """Base of all errors of this package; the message is one clear line."""

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark executors). Subclasses have keyword-only
        # constructors, so pickling restores message and fields, not the constructor call.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(
    cls: type[HoodooError], args: tuple[object, ...], fields: dict[str, object]
) -> HoodooError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ConfigError(HoodooError):
    """A setting is bad: change the setting."""

    def __init__(self, *, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key}={value!r}: {reason}")
        self.key = key
        self.value = value
        self.reason = reason


class UnsupportedValue(ConfigError):
    """Apache Hudi knows this value and hoodoo does not: reads go on without it, writes fail."""


class InputError(HoodooError):
    """Rows or arguments handed in by the caller are not acceptable; nothing was written."""


class SchemaMismatch(InputError):
    """Rows do not fit the table's schema."""


class NoSuchTable(HoodooError):
    """There is no table at this place."""

    def __init__(self, uri: str, reason: str = "no .hoodie/hoodie.properties there") -> None:
        super().__init__(f"no table at {uri}: {reason}")
        self.uri = uri


class TableExists(HoodooError):
    """A table is already at this place; `reason` says why it is not the one asked for."""

    def __init__(self, uri: str, reason: str = "") -> None:
        super().__init__(f"a table already exists at {uri}" + (f": {reason}" if reason else ""))
        self.uri = uri
        self.reason = reason


class UnsupportedFeature(HoodooError):
    """The table or the request uses something that hoodoo does not do (yet)."""


class FormatError(HoodooError):
    """Bytes on storage are not what the format says; `source` is the file, once known."""

    def __init__(self, reason: str, *, source: str | None = None) -> None:
        self.reason = " ".join(reason.split())  # libraries' messages have line breaks
        super().__init__(self.reason)
        self.source = source

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}" if self.source else self.reason


class CorruptBlock(FormatError):
    """A block of a log file or an HFile fails its own checks."""

    def __init__(self, reason: str, *, offset: int, source: str | None = None) -> None:
        super().__init__(f"block at byte {offset}: {reason}", source=source)
        self.offset = offset


class UnsupportedVersion(FormatError):
    """A version number that this release cannot read or write."""

    def __init__(self, *, what: str, version: object, source: str | None = None) -> None:
        super().__init__(f"{what} {version!r} is not supported", source=source)
        self.what = what
        self.version = version


@contextmanager
def add_error_source(source: str) -> Iterator[None]:
    """Give a `FormatError` that leaves this block the file it is about."""
    try:
        yield
    except FormatError as error:
        if error.source is None:
            error.source = source
        raise


class StorageError(HoodooError):
    """The store refused or failed an operation."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class ObjectNotFound(StorageError):
    """The object is not there."""

    def __init__(self, path: str, reason: str = "not found") -> None:
        super().__init__(path, reason)


class UnusablePath(StorageError):
    """No object of the store can have this path, so none is there."""


class ObjectExists(StorageError):
    """A create found the object there."""

    def __init__(self, path: str, reason: str = "already exists") -> None:
        super().__init__(path, reason)


class PreconditionFailed(StorageError):
    """A replace found another version than the one expected."""

    def __init__(self, path: str, reason: str = "changed by someone else") -> None:
        super().__init__(path, reason)


class OutcomeUnknown(StorageError):
    """The operation may or may not have landed: look before doing anything else."""

    def __init__(self, path: str, reason: str = "no answer; it may have landed") -> None:
        super().__init__(path, reason)


class TimelineError(HoodooError):
    """The timeline does not allow this."""


class IllegalTransition(TimelineError):
    """An instant cannot go from its present state to the one asked for."""


class AlreadyCommitted(TimelineError):
    """The instant is completed; it can no longer be changed."""


class HeadMoved(TimelineError):
    """Someone else decided something about the table meanwhile: look again, then decide anew."""

    def __init__(self, number: int, *, may_have_landed: bool) -> None:
        super().__init__(f"decision {number} on this table was taken by someone else")
        self.number = number
        self.may_have_landed = may_have_landed


@with_old_fields
class SnapshotCleaned(TimelineError):
    """Files of the table as it was at a moment are gone: begin later, or from the beginning.

    `oldest_readable_instant` is the oldest instant that changes can still be read from, if there is
    one; `setting` the option of the cleaner that keeps more.
    """

    def __init__(
        self, *, as_of: str, clean: str, oldest_readable_instant: str | None, setting: str
    ) -> None:
        begin = (
            f"begin at {oldest_readable_instant}, the oldest instant that is left"
            if oldest_readable_instant
            else "begin anew"
        )
        super().__init__(
            f"cannot read the table as it was at {as_of}: clean {clean} deleted files of it; "
            f'{begin}, or read everything with since="earliest"; {setting} keeps more'
        )
        self.as_of = as_of
        self.clean = clean
        self.oldest_readable_instant = oldest_readable_instant
        self.setting = setting


class WriterAlive(TimelineError):
    """Someone is at work on the instant: wait for it to end, or force it."""


class PlanInProgress(TimelineError):
    """Someone else executes the plan: wait for that, or look at `hoodoo plans`."""


class PlanNotExecutable(TimelineError):
    """The plan's execution failed, or it is being rolled back, and it is not tried again."""


class NotCancellable(TimelineError):
    """The instant is not a pending plan that was scheduled as cancellable."""


class CancelNotRequested(TimelineError):
    """Nobody asked for the plan's end: request it first."""


class EngineFailed(HoodooError):
    """The engine (Spark) could not carry a task out; its own error is the cause of this one."""


class LockTimeout(HoodooError):
    """The table lock was not obtained in time."""


class CommitFailed(HoodooError):
    """The commit did not land; cleaning up after it is safe."""


@with_old_fields
class WriteConflict(CommitFailed):
    """Another write meanwhile touched what this one is about: run it again on the table as it is.

    `instant` is the time of the write that failed, if it had one; `conflicting_instants` are the
    times of the instants in its way, and `file_groups` those that both touch, as `partition/file
    id`.
    """

    def __init__(
        self,
        message: str,
        *,
        instant: str | None = None,
        conflicting_instants: tuple[str, ...] = (),
        file_groups: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.instant = instant
        self.conflicting_instants = conflicting_instants
        self.file_groups = file_groups


class EarlyConflict(WriteConflict):
    """A write in progress elsewhere touches the same file groups."""


class HeartbeatLost(CommitFailed):
    """The writer's heartbeat expired or was taken over."""


class PlanCancelled(CommitFailed):
    """The plan was cancelled."""


class TaskStopped(CommitFailed):
    """Another task of the write failed, and its error says why."""


class TableChanged(CommitFailed):
    """The table is not what it was when this write was planned: open it again."""


@with_old_fields
class LockLost(CommitFailed):
    """The table lock was lost before publishing; or while, and the commit was taken back."""

    def __init__(self, message: str, *, was_withdrawn: bool = False) -> None:
        super().__init__(message)
        self.was_withdrawn = was_withdrawn


class CommitUnknown(HoodooError):
    """The commit may have landed, or may still land: look before doing it again, never delete.

    `instant` is the time of the write: committed is what `hoodoo timeline` shows as completed.
    """

    def __init__(self, message: str, *, instant: str | None = None) -> None:
        super().__init__(message)
        self.instant = instant


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
