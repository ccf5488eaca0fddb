"""`Outputs`: the files that one attempt of a handle makes, hidden until it may publish them."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from hoodoo.errors import AlreadyExists
from hoodoo.format import partition_metadata
from hoodoo.model.names import BaseFileName, LogFileName, MarkerKind, MarkerName, WriteToken
from hoodoo.model.names import write_token as token_of
from hoodoo.model.paths import PARTITION_METADATA, PartitionPath, join
from hoodoo.storage.storage import WriteStream
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.write.announce import announce_files
from hoodoo.write.context import WriteContext

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
        announced: MarkerName | None = None,
    ) -> None:
        """`index` tells handles of the write apart; `announced` need not be announced again."""
        self.context = context
        self.index = index
        self._attempt = attempt
        self._announced = announced
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
        metadata = partition_metadata.PartitionMetadata.of(partition, made_by=made_by)
        with suppress(AlreadyExists):  # another task of this write, or another writer
            storage.create(path, partition_metadata.encode(metadata))

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
