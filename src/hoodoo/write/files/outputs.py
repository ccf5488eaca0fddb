"""The files that one attempt of a handle makes: announced, hidden, then published.

`announce_files` creates the markers before the files, and takes the occasion to look for conflicts
and for a stop note. `Outputs` hides the files of an attempt until it may publish them. A crash
leaves markers, and files that a rollback or a sweep finds by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from hoodoo.concurrency.markers import announce
from hoodoo.errors import ObjectExists, ObjectNotFound, StorageError, TaskStopped
from hoodoo.format import properties
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId, parse_data_file
from hoodoo.model.names import BaseFileName, LogFileName, MarkerKind, MarkerName, WriteToken
from hoodoo.model.names import write_token as token_of
from hoodoo.model.paths import PARTITION_METADATA, PartitionPath, join
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.storage.storage import WriteStream
from hoodoo.write.files.context import WriteContext

# -- announcing files ---------------------------------------------------------------------------


def announce_files(
    context: WriteContext, markers: Sequence[MarkerName], *, number: int = 0
) -> None:
    """Tell of files that are about to be made, then look whether others are at the same groups.

    `number` is that of `markers.announce`. Raises `EarlyConflict`, and `TaskStopped` if another
    task of the write has failed.
    Order: stop note, where the write has one; markers; those of others.
    """
    if context.has_stop_note:
        refuse_stopped(context)

    def publish() -> None:
        env, instant = context.ref.env, context.requested_time
        if context.announcer is not None:
            context.announcer.announce(env, instant, markers, number=number)
        else:
            announce(env, instant, markers, type=context.marker_type, number=number)

    if context.early is None:
        publish()
    else:
        context.early.announce(_groups_of(markers), publish)


def _groups_of(markers: Sequence[MarkerName]) -> frozenset[FileGroupId]:
    groups = set()
    for marker in markers:
        partition, _, name = marker.data_file.rpartition("/")
        file = parse_data_file(PartitionPath(partition), name, 0)
        assert file is not None
        groups.add(FileGroupId(file.partition, file.name.file_id))
    return frozenset(groups)


def leave_stop_note(context: WriteContext, reason: str) -> None:
    """Tell the other tasks of a write that it has failed; without the note they find out later."""
    with suppress(StorageError):
        context.ref.env.storage.put(paths.stop_note_path(context.requested_time), reason.encode())


def refuse_stopped(context: WriteContext) -> None:
    """Fail if another task of the write has. Raises `TaskStopped`."""
    try:
        reason = context.ref.env.storage.read(paths.stop_note_path(context.requested_time))
    except ObjectNotFound:
        return
    text = reason.decode(errors="replace")
    raise TaskStopped(f"another task of instant {context.requested_time} failed: {text}")


# -- files of an attempt ------------------------------------------------------------------------


_BATCHES_OF_A_HANDLE = 1_000  # more are possible, and collide with those of the next handle


class Outputs:
    """Files in the making: each announced, none visible before `publish`.

    Leaving a `with` block drops what was not published.
    """

    def __init__(
        self,
        context: WriteContext,
        *,
        index: int,
        attempt: int,
        announced_marker: MarkerName | None = None,
    ) -> None:
        """`index` tells handles of the write apart; `announced_marker` exists already."""
        self.context = context
        self.index = index
        self._attempt = attempt
        self._announced = announced_marker
        self._streams: dict[str, WriteStream] = {}
        self._published: list[str] = []
        self._partitions: set[PartitionPath] = set()

    @property
    def token(self) -> WriteToken:
        """What tells the files of this attempt from those of others."""
        return token_of(partition=self.index, stage=self.context.epoch, attempt=self._attempt)

    @property
    def paths(self) -> list[str]:
        """The files, in the order in which they were begun."""
        return list(self._streams)

    def open(
        self, partition: PartitionPath, name: BaseFileName | LogFileName, kind: MarkerKind
    ) -> WriteStream:
        """A new file to write to, once others can find it, should this writer die over it."""
        marker = MarkerName(join(partition, str(name)), kind)
        self.announce(marker)
        stream = self.context.ref.env.storage.open_write(marker.data_file)
        self._streams[marker.data_file] = stream
        return stream

    def announce(self, marker: MarkerName) -> None:
        """Tell of a file that will be opened next, unless that is done. Raises `EarlyConflict`."""
        if marker != self._announced:
            number = 1 + self.index * _BATCHES_OF_A_HANDLE + len(self._streams)
            announce_files(self.context, [marker], number=number)
            self._announced = marker

    def ensure_partition(self, partition: PartitionPath) -> None:
        """Mark a directory as a partition: Apache Hudi finds them so when it lists directories."""
        if partition in self._partitions:
            return
        self._partitions.add(partition)
        storage, path = self.context.ref.env.storage, join(partition, PARTITION_METADATA)
        if storage.exists(path):
            return
        made_by = self.context.requested_time
        metadata = properties.PartitionMetadata.of(partition, made_by=made_by)
        with suppress(ObjectExists):  # another task of this write, or another writer
            storage.create(path, properties.encode(metadata))

    def publish(self) -> None:
        """Make all files visible, one after the other."""
        for path, stream in self._streams.items():
            self._published.append(path)  # even if it fails: it may have landed
            stream.close()

    def withdraw(self) -> None:
        """Delete what was published; nobody may have been told of it."""
        for path in self._published:
            delete_surely(self.context.ref.env, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for stream in self._streams.values():
            stream.discard()
