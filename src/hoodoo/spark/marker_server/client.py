"""`ServedMarkers`: how executors announce files to the marker server in the driver."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException

from hoodoo.concurrency.markers import announce
from hoodoo.config.concurrency import MarkerType
from hoodoo.errors import EngineFailed, InputError
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerName
from hoodoo.runtime.env import Env
from hoodoo.spark.marker_server.protocol import (
    MARKERS_PATH,
    MOST_BODY_BYTES,
    MOST_MARKERS,
    TOKEN_HEADER,
    decode_conflict,
)

log = logging.getLogger("hoodoo.spark")

_CONNECT_WITHIN_S = 2.0
_ANSWER_WITHIN_S = 10.0
_AVOID_S = 10.0
"""After a failure tasks go without the server this long: each would wait for it otherwise."""

_avoid_since: dict[ServedMarkers, float] = {}
"""Servers that did not answer, of this process, and when to try them again."""
_warned_servers: set[ServedMarkers] = set()


class _Unreachable(Exception):
    """The server did not answer as it should; what it was asked for may have happened or not."""


@dataclass(frozen=True, slots=True)
class ServedMarkers:
    """The marker server of a write, as its executors know it."""

    host: str
    port: int
    token: str = field(repr=False)
    files: int
    """Batches below this number are the server's own."""

    def announce(
        self, env: Env, instant_time: InstantTime, markers: Sequence[MarkerName], *, number: int
    ) -> None:
        """Tell of data files that are about to be made; when this returns, anyone can undo them.

        Where the server cannot be reached, they go into a batch of the task's own; `number` is
        as `markers.announce` has it. Raises `EarlyConflict` if the write has to end.

        Order: a request to the server; or else MARKERS.type, then a batch.
        Crash: markers of files that are not there, which means nothing.
        """
        if time.monotonic() >= _avoid_since.get(self, 0.0):
            try:
                for chunk in _split(markers):
                    _connection_of(self).post(chunk)
            except _Unreachable as error:
                self._avoid(instant_time, error)
            else:
                _avoid_since.pop(self, None)
                return
        # Announcing twice does no harm, so it does not matter what the server wrote.
        own = self.files + number
        announce(env, instant_time, markers, type=MarkerType.BATCHED, number=own)

    def _avoid(self, instant_time: InstantTime, error: _Unreachable) -> None:
        _avoid_since[self] = time.monotonic() + _AVOID_S
        if self not in _warned_servers:
            _warned_servers.add(self)
            log.warning(
                "marker_server_unreachable time=%s at=%s:%s tasks_write_own_batches=true error=%s",
                instant_time,
                self.host,
                self.port,
                error,
            )


def _split(markers: Sequence[MarkerName]) -> Iterator[bytes]:
    """Bodies of requests that the server takes: not too many markers in one, nor too long."""
    texts: list[str] = []
    size = 0
    for text in map(str, markers):
        length = len(json.dumps(text)) + 2
        if texts and (len(texts) == MOST_MARKERS or size + length > MOST_BODY_BYTES - 64):
            yield json.dumps({"markers": texts}).encode()
            texts, size = [], 0
        texts.append(text)
        size += length
    if texts:
        yield json.dumps({"markers": texts}).encode()


class _Connection:
    """A connection that stays open between requests, of one thread."""

    def __init__(self, server: ServedMarkers) -> None:
        self.server = server
        self.pid = os.getpid()
        self._http: HTTPConnection | None = None

    def post(self, body: bytes) -> None:
        """Announce markers, and raise what is answered."""
        was_open = self._http is not None
        try:
            status, answer = self._send(body)
        except TimeoutError as error:
            self.close()
            raise _Unreachable(f"no answer in time ({error})") from error
        except (OSError, HTTPException) as error:
            self.close()
            if was_open:  # it may have been closed because it was idle
                self.post(body)
                return
            raise _Unreachable(f"{type(error).__name__}: {error}") from error
        self._raise_refusal(status, answer)

    def _send(self, body: bytes) -> tuple[int, bytes]:
        http = self._http
        if http is None:
            http = HTTPConnection(self.server.host, self.server.port, timeout=_CONNECT_WITHIN_S)
            http.connect()  # sets TCP_NODELAY
            http.sock.settimeout(_ANSWER_WITHIN_S)
            self._http = http
        headers = {TOKEN_HEADER: self.server.token, "content-type": "application/json"}
        http.request("POST", MARKERS_PATH, body, headers)
        response = http.getresponse()
        answer = response.read()
        if response.will_close:
            self.close()
        return response.status, answer

    def _raise_refusal(self, status: int, answer: bytes) -> None:
        if status == 200:
            return
        try:
            reply = json.loads(answer)
            if status == 409:
                raise decode_conflict(reply["conflict"])
            reason = reply["error"]
        except (ValueError, KeyError, TypeError):
            raise _Unreachable(f"status {status}, and no answer of ours") from None
        if status >= 500:
            raise _Unreachable(f"status {status}: {reason}")
        kind = InputError if status in (400, 413) else EngineFailed
        place = f"{self.server.host}:{self.server.port}"
        raise kind(f"the marker server at {place} refused a request: {reason}")

    def close(self) -> None:
        """The next request opens another one."""
        http, self._http = self._http, None
        if http is not None:
            with suppress(OSError):
                http.close()


_of_thread = threading.local()


def _connection_of(server: ServedMarkers) -> _Connection:
    """This thread's connection; one to another server, or from before a fork, is dropped."""
    present: _Connection | None = getattr(_of_thread, "connection", None)
    if present is None or present.server != server or present.pid != os.getpid():
        if present is not None:
            present.close()
        present = _of_thread.connection = _Connection(server)
    return present
