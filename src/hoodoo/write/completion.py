"""Completion markers: which attempt of a handle counts, and what it wrote."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.env import Env
from hoodoo.errors import AlreadyExists, NotFound, naming
from hoodoo.format.completion import Completion, Digest, decode_completion, encode_completion
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.table.strays import delete_files
from hoodoo.timeline.resolve_unknown import create_once

__all__ = [
    "Completion",
    "Digest",
    "delete_completions",
    "load_completion",
    "load_completions",
    "record_completion",
]


def record_completion(
    env: Env, instant: InstantTime, epoch: int, completion: Completion
) -> Completion:
    """Say that a handle is done; tells which attempt of it was the first to say so.

    Raises `OutcomeUnknown`: then it may have been this one.
    Order: the marker, put-if-absent.
    Crash: whoever runs the handle again returns what the marker says.
    """
    path = paths.completion(instant, epoch, completion.handle)
    try:
        create_once(env, path, encode_completion(completion))
    except AlreadyExists:
        winner = load_completion(env, instant, epoch, completion.handle)
        return (
            winner or completion
        )  # gone meanwhile: the instant has ended, as this one will find out
    return completion


def load_completion(env: Env, instant: InstantTime, epoch: int, handle: str) -> Completion | None:
    """What a handle wrote, if it is done."""
    return _read_completion(env, paths.completion(instant, epoch, handle))


def load_completions(env: Env, instant: InstantTime, epoch: int) -> Mapping[str, Completion]:
    """The handles of one attempt at an instant that are done, by name.

    For those who carry on with a plan whose executor died: what it finished need not be done
    again, if the files are there.
    """
    completions = {}
    for entry in env.storage.list(paths.completion_directory(instant, epoch)):
        completion = _read_completion(env, entry.path)
        if completion is not None:
            completions[completion.handle] = completion
    return completions


def delete_completions(env: Env, instant: InstantTime) -> None:
    """Remove what the handles of an instant left.

    Needs: the instant has ended: whoever comes later finds that out.
    """
    directory = paths.completion_directory(instant)
    delete_files(env, [entry.path for entry in env.storage.list(directory, recursive=True)])


def _read_completion(env: Env, path: str) -> Completion | None:
    try:
        data = env.storage.read(path)
    except NotFound:
        return None
    with naming(path):
        return decode_completion(data)
