"""Announcing the files of a write: markers, and what is looked for on that occasion."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hoodoo.concurrency.markers import announce
from hoodoo.errors import NotFound, StorageError, TaskStopped
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId, parse_data_file
from hoodoo.model.names import MarkerName
from hoodoo.model.paths import PartitionPath
from hoodoo.write.context import WriteContext


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
        context.ref.env.storage.put(paths.stop(context.requested_time), reason.encode())


def refuse_stopped(context: WriteContext) -> None:
    """Fail if another task of the write has. Raises `TaskStopped`."""
    try:
        reason = context.ref.env.storage.read(paths.stop(context.requested_time))
    except NotFound:
        return
    text = reason.decode(errors="replace")
    raise TaskStopped(f"another task of instant {context.requested_time} failed: {text}")
