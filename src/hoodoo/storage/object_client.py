"""obstore's clients: how they are made, and what their failures mean.

A client that repeats a conditional write on its own turns a write that landed, but whose answer
was lost, into a false conflict. So clients for writes never retry. `run_write_request` repeats what
the store certainly did not do (no connection, throttled, busy); whatever else has no clear answer
becomes `OutcomeUnknown`, and the protocol above looks. Clients for reads retry by themselves.

`advise` says, from the client's text, which option to set when a store refuses a request.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from hoodoo.errors import (
    ConfigError,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
)
from hoodoo.storage.storage import NEVER, Deadline
from hoodoo.storage.uri import TableUri

# -- advice for refused requests -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one kind of store, by what they are about."""

    credentials: str
    place: str
    endpoint: str


_S3 = _Options(
    credentials="aws_access_key_id and aws_secret_access_key (aws_session_token, if they are "
    "temporary)",
    place="aws_region",
    endpoint="aws_endpoint",
)
_GCS = _Options(
    credentials="google_service_account (the path of its key file)",
    place="google_service_account",
    endpoint="google_base_url",
)
_AZURE = _Options(
    credentials="azure_storage_account_name and azure_storage_account_key",
    place="azure_storage_account_name",
    endpoint="azure_storage_endpoint",
)
_STORES = (
    (re.compile(r"GCS|googleapis\.com|metadata\.google"), _GCS),
    (re.compile(r"MicrosoftAzure|\.core\.windows\.net|Account must be specified"), _AZURE),
)
_CREDENTIALS = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId"
    r"|AuthenticationFailed|NoAuthenticationInformation|169\.254\.|metadata\.google"
    r"|401 Unauthorized|[Cc]redential|Account must be specified"
)
_REGION = re.compile(
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint"
    r"|301 Moved|Received redirect without LOCATION"
)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_ACCESS_DENIAL = re.compile(r"AccessDenied|AuthorizationFailure|403 Forbidden|status code: 403")
_AWAY = re.compile(r"error sending request|kind: Connect,|dns error|Connection refused")


def advise(text: str) -> str:
    """What to set, for an error of the client as it tells it; nothing where that is not known."""
    options = next(
        (store_options for pattern, store_options in _STORES if pattern.search(text)), _S3
    )
    if "builder error" in text:
        return "an http:// endpoint needs the option allow_http=true"
    if _REGION.search(text):
        return f"set the option {options.place} to where the bucket is"
    if _NO_BUCKET.search(text):
        return f"check the bucket in the URI, and the options {options.place}, {options.endpoint}"
    if _CREDENTIALS.search(text):
        return f"set the options {options.credentials}"
    if _ACCESS_DENIAL.search(text):
        return (
            "the credentials must allow to list, read, write and delete there; "
            f"others are set by the options {options.credentials}"
        )
    if _AWAY.search(text):
        return f"nobody answers there: check the network, and the option {options.endpoint}"
    return ""


# -- clients and their failures --------------------------------------------------------------------


Client: TypeAlias = S3Store | GCSStore | AzureStore
Result = TypeVar("Result")

_READ_RETRY: Any = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2.0,
    },
}
_NO_RETRY: Any = {"max_retries": 0}
_BODY_REPEATS = 3
_WRITE_BACKOFF_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
_IDLE_TIMEOUT = "5s"
_LARGE_TIMEOUT_S = 900.0  # one request carries the whole object; the default is 30 s
# What publishes must land soon or never: a lock may be taken over 10 s after a holder's last
# chance to send (concurrency/locks/lease.py).
SMALL_TIMEOUT_S = 10.0
"""For a request that carries a small object."""

# What obstore raises: its own tree, and these built-in ones.
_FAILURES = (exceptions.BaseError, OSError, ValueError, NotImplementedError)
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_THROTTLE_CODES = ("SlowDown", "ServerBusy", "ConditionalRequestConflict", "OperationAborted")


class EmptyRange(StorageError):
    """A range that starts at or after the end of the object."""


def reader(place: TableUri, options: Mapping[str, str]) -> Client:
    """A client for reads. Raises `ConfigError` for options it does not know or understand."""
    return _client(place, options, _READ_RETRY)


def writer(place: TableUri, options: Mapping[str, str], timeout_s: float) -> Client:
    """A client for writes, each over after `timeout_s`, unless the options set a time-out."""
    # A connection that the server closes just as we use it again makes an unknown outcome.
    options = _with_default("pool_idle_timeout", _IDLE_TIMEOUT, options)
    options = _with_default("timeout", f"{round(timeout_s * 1000)}ms", options)
    return _client(place, options, _NO_RETRY)


def large_timeout_s(limit_s: float | None) -> float:
    """How long the upload of a large object takes at most, where this limit is wanted."""
    limit_or_default_s = _LARGE_TIMEOUT_S if limit_s is None else limit_s
    return min(max(limit_or_default_s, SMALL_TIMEOUT_S), _LARGE_TIMEOUT_S)


def run_read_request(path: str, request: Callable[[], Result]) -> Result:
    """The answer to a request that changes nothing."""
    repeats = _BODY_REPEATS
    while True:
        try:
            return request()
        except _FAILURES as error:
            # The client repeats requests, but not those whose listing breaks off half-way.
            if repeats == 0 or "response body error" not in str(error):
                raise _translate_error(path, error, writing=False) from error
            repeats -= 1


def run_write_request(
    path: str, request: Callable[[], Result], deadline: Deadline = NEVER
) -> Result:
    """The answer to a request that changes something, repeated while it surely did not.

    None is begun after the deadline, not even the first one.
    """
    pauses = iter(_WRITE_BACKOFF_S)
    while True:
        deadline.check(path)
        try:
            return request()
        except _FAILURES as error:
            if not _is_turned_away(str(error)):
                raise _translate_error(path, error, writing=True) from error
            pause_s = next(pauses, math.inf) * (0.5 + random.random())
            if pause_s == math.inf or pause_s > deadline.left_s():
                raise StorageError(path, f"the store is busy or away: {_reason(error)}") from error
        time.sleep(pause_s)


def _is_turned_away(text: str) -> bool:
    """Whether the store certainly did nothing, but may do it if asked again."""
    if "kind: Connect," in text:
        return True
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is not None and status[1] == "429":
        return True
    return code is not None and code[1] in _THROTTLE_CODES


def _translate_error(path: str, error: Exception, *, writing: bool) -> StorageError:
    text = str(error)
    match = _STATUS.search(text)
    status = int(match[1]) if match else None
    code = _CODE.search(text)
    if isinstance(error, FileNotFoundError) and (code is None or code[1] != "NoSuchBucket"):
        return ObjectNotFound(path)
    if isinstance(error, exceptions.AlreadyExistsError):
        return ObjectExists(path)
    if isinstance(error, exceptions.PreconditionError):
        return PreconditionFailed(path)
    if status == 416 or "Wanted range starting at" in text:
        return EmptyRange(path, "empty range")
    unsent = "kind: Connect," in text or "builder error" in text
    is_refusal = status is not None and 300 <= status < 500 and status != 408
    generic = isinstance(error, exceptions.GenericError | OSError)
    if writing and generic and not (unsent or is_refusal):
        return OutcomeUnknown(path, f"no clear answer, it may have landed: {_reason(error)}")
    return StorageError(path, _reason(error))


def _reason(error: Exception) -> str:
    """One line for people: what the server said, or else what the client says, and what to set."""
    text = str(error)
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is not None:
        line = f"{code[1]}: {message[1]}" if message else code[1]
    else:
        line = " ".join(text.partition("\n\nDebug source:")[0].split())[:300]
    advice = advise(text)
    return f"{line} ({advice})" if advice else line


def _client(place: TableUri, options: Mapping[str, str], retry: Any) -> Client:
    try:
        return _construct(place, options, retry)
    except _FAILURES as error:
        raise _bad_options(place, options, error) from error


def _construct(place: TableUri, options: Mapping[str, str], retry: Any) -> Client:
    if place.scheme == "s3":
        # Not all S3 servers know the bulk delete, and we delete one object at a time.
        options = _with_default("disable_bulk_delete", "true", options)
        return S3Store(place.place, **_arguments(place, options, retry))
    if place.scheme == "gs":
        return GCSStore(place.place, **_arguments(place, options, retry))
    container, _, host = place.place.partition("@")
    if host:
        account = host.partition(".")[0]
        options = _with_default("azure_storage_account_name", account, options)
    return AzureStore(container, **_arguments(place, options, retry))


def _arguments(place: TableUri, options: Mapping[str, str], retry: Any) -> dict[str, Any]:
    return {"prefix": place.path or None, "config": dict(options), "retry_config": retry}


def _with_default(key: str, value: str, options: Mapping[str, str]) -> Mapping[str, str]:
    names = {re.sub("^(aws|google|azure)_", "", name.lower()) for name in options}
    bare = re.sub("^(aws|google|azure)_", "", key)
    return options if bare in names else {key: value, **options}


def _bad_options(place: TableUri, options: Mapping[str, str], error: Exception) -> ConfigError:
    """The error that names the option. Values are left out: they may be secrets."""
    for key, value in options.items():
        try:
            _construct(place, {key: value}, _NO_RETRY)
        except exceptions.UnknownConfigurationKeyError:
            reason = f"not an option of {place.scheme} storage"
            return ConfigError(key=key, value="...", reason=reason)
        except _FAILURES as alone:
            if _reason(alone) == _reason(error):
                return ConfigError(key=key, value="...", reason=_reason(error))
    return ConfigError(key="storage options", value=str(place), reason=_reason(error))
