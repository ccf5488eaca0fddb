"""Writes whose answer got lost, carried on until their outcome is known.

A conditional write that is tried again after it had landed looks like a conflict, so the stores
never repeat one by themselves: they say `OutcomeUnknown`, and here someone looks.
"""

from __future__ import annotations

from hoodoo.env import Env
from hoodoo.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
)

_ATTEMPTS = 5
_PAUSE_S = 0.2


def create_settled(env: Env, path: str, data: bytes, *, within_s: float | None = None) -> str:
    """Make a new object with exactly these bytes, once; its etag. No request is sent later.

    Raises `AlreadyExists` if another's bytes are there; `OutcomeUnknown` if the store does not
    answer for long: then the object may be there, or may still appear.
    """
    began = env.clock.monotonic()
    for attempt in range(_ATTEMPTS):
        left_s = within_s
        if attempt:
            env.clock.sleep(_PAUSE_S * attempt)
            if within_s is not None:
                left_s = within_s - (env.clock.monotonic() - began)
                if left_s <= 0:
                    break
        try:
            return env.storage.create(path, data, within_s=left_s).etag
        except OutcomeUnknown:
            continue
        except AlreadyExists:
            etag = _etag_of(env, path, data) if attempt else None
            if etag is None:
                raise
            return etag  # of the one whose answer was lost
    raise OutcomeUnknown(path)


def replace_settled(env: Env, path: str, data: bytes, *, if_match: str) -> str:
    """Overwrite the version with this etag, once; the new etag.

    `data` differs from every version before. Raises `PreconditionFailed`, `OutcomeUnknown`.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            env.clock.sleep(_PAUSE_S * attempt)
        try:
            return env.storage.replace(path, data, if_match=if_match).etag
        except OutcomeUnknown:
            continue
        except PreconditionFailed:
            etag = _etag_of(env, path, data) if attempt else None
            if etag is None:
                raise
            return etag
    raise OutcomeUnknown(path)


def delete_settled(env: Env, path: str) -> None:
    """Remove an object; deleting twice does no harm, so lost answers are asked for again."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            env.clock.sleep(_PAUSE_S * attempt)
        try:
            env.storage.delete(path)
        except OutcomeUnknown:
            continue
        return
    raise OutcomeUnknown(path)


def _etag_of(env: Env, path: str, data: bytes) -> str | None:
    """The etag of an object if these are its bytes."""
    try:
        etag = env.storage.stat(path).etag
        return etag if env.storage.read(path) == data else None
    except NotFound:
        return None
