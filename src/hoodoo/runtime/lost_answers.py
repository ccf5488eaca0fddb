"""Writes whose answer got lost, carried on until their outcome is known.

A conditional write that is tried again after it had landed looks like a conflict, so the stores
never repeat one by themselves: they say `OutcomeUnknown`, and here someone looks.
"""

from __future__ import annotations

from collections.abc import Callable

from hoodoo.errors import (
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
)
from hoodoo.runtime.env import Env

_ATTEMPTS = 5
_PAUSE_S = 0.2


def create_once(env: Env, path: str, data: bytes, *, within_s: float | None = None) -> str:
    """Make a new object with exactly these bytes, once; its etag. No request is sent later.

    Raises `ObjectExists` if another's bytes are there; `OutcomeUnknown` if a request got no
    answer, and nothing tells what became of it: then the object may be there, or may still appear.
    """

    def send(left_s: float | None) -> str:
        return env.storage.create(path, data, within_s=left_s).etag

    return _resolve(env, path, data, send, within_s)


def replace_once(env: Env, path: str, data: bytes, *, if_match: str) -> str:
    """Overwrite the version with this etag, once; the new etag.

    `data` differs from every version before. Raises `PreconditionFailed`, `OutcomeUnknown`.
    """

    def send(left_s: float | None) -> str:
        return env.storage.replace(path, data, if_match=if_match, within_s=left_s).etag

    return _resolve(env, path, data, send, None)


def delete_surely(env: Env, path: str) -> bool:
    """Remove an object; deleting twice does no harm, so lost answers are asked for again.

    True if an answer was lost: that request may land late, whatever has the name by then.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            env.clock.sleep(_PAUSE_S * attempt)
        try:
            env.storage.delete(path)
        except OutcomeUnknown:
            continue
        return attempt > 0
    raise OutcomeUnknown(path)


def _resolve(
    env: Env,
    path: str,
    data: bytes,
    send: Callable[[float | None], str],
    within_s: float | None,
) -> str:
    """Send a conditional write until it is answered; one that was refused may have landed before.

    Once an answer was lost, every other failure leaves the outcome unknown.
    """
    began, is_unknown = env.clock.monotonic(), False
    for attempt in range(_ATTEMPTS):
        left_s = within_s
        if attempt:
            env.clock.sleep(_PAUSE_S * attempt)
            if within_s is not None:
                left_s = within_s - (env.clock.monotonic() - began)
                if left_s <= 0:
                    break
        try:
            return send(left_s)
        except OutcomeUnknown:
            is_unknown = True
        except (ObjectExists, PreconditionFailed):
            etag = _read_own_etag(env, path, data) if is_unknown else None
            if etag is None:
                raise
            return etag  # of the one whose answer was lost
        except StorageError as error:
            if not is_unknown:
                raise
            raise OutcomeUnknown(path, f"no answer, and then {error}") from error
    raise OutcomeUnknown(path)


def _read_own_etag(env: Env, path: str, data: bytes) -> str | None:
    """The etag of an object if these are its bytes."""
    try:
        version = env.storage.read_version(path)
    except ObjectNotFound:
        return None
    except StorageError as error:
        raise OutcomeUnknown(path, f"no answer, and then {error}") from error
    return version.etag if version.data == data else None
