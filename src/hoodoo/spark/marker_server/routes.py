"""What the marker server answers: an ASGI application without a framework, for four routes."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hoodoo.concurrency.markers import parse_announced
from hoodoo.errors import HoodooError, InputError
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerName
from hoodoo.spark.marker_server.batches import MarkerFlushes
from hoodoo.spark.marker_server.protocol import (
    CONFLICT_PATH,
    MARKERS_PATH,
    MOST_BODY_BYTES,
    MOST_MARKERS,
    TOKEN_HEADER,
    encode_conflict,
)

log = logging.getLogger("hoodoo.spark")

_BODY_WITHIN_S = 5.0
_HEADER = TOKEN_HEADER.encode()
_KEEPS_CONNECTION = (200, 409)  # with others, part of the request may be unread

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer: TypeAlias = tuple[int, Mapping[str, object]]


class _Refusal(Exception):
    """The request is answered with this status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _ClientGone(Exception):
    """There is nobody to answer."""


@dataclass(frozen=True, slots=True)
class MarkerRoutes:
    """The routes of `marker_protocol`, for the markers of one write."""

    instant: InstantTime
    token: str
    flushes: MarkerFlushes
    find_conflict: Callable[[], HoodooError | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            status, answer = await self._answer(scope, receive)
        except _ClientGone:
            return
        except _Refusal as refused:
            status, answer = refused.status, {"error": str(refused)}
        except Exception as error:  # the store's, or the conflict check's; the client goes on
            log.warning("marker_request_failed time=%s error=%s", self.instant, error)
            status, answer = 503, {"error": f"{type(error).__name__}: {error}"}
        body = json.dumps(answer).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        if status not in _KEEPS_CONNECTION:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        # Before anything else is looked at, or the body is read.
        if not hmac.compare_digest(headers.get(_HEADER, b""), self.token.encode()):
            raise _Refusal(401, "wrong or missing token")
        scope["state"]["connection"].is_trusted = True
        match scope["path"], scope["method"]:
            case str(path), "POST" if path == MARKERS_PATH:
                return await self._create(await _read_body(headers, receive))
            case str(path), "GET" if path == MARKERS_PATH:
                return 200, {"markers": [str(marker) for marker in self.flushes.markers]}
            case str(path), "DELETE" if path == MARKERS_PATH:
                await self.flushes.delete()
                return 200, {}
            case str(path), "GET" if path == CONFLICT_PATH:
                conflict = self.find_conflict()
                return 200, {"conflict": encode_conflict(conflict) if conflict else None}
            case str(path), _ if path in (MARKERS_PATH, CONFLICT_PATH):
                raise _Refusal(405, "no such method here")
        raise _Refusal(404, "no such path")

    async def _create(self, body: bytes) -> Answer:
        """Announce markers: not if there is a conflict, which may also be found meanwhile."""
        markers = _parse_body(body, self.instant)
        conflict = self.find_conflict()
        if conflict is None:
            await self.flushes.announce(markers)
            conflict = self.find_conflict()
        return (200, {}) if conflict is None else (409, {"conflict": encode_conflict(conflict)})


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    length = headers.get(b"content-length")
    if length is None:
        raise _Refusal(411, "content-length is missing")
    if int(length) > MOST_BODY_BYTES:  # the parser has checked that it is a number
        raise _Refusal(413, f"more than {MOST_BODY_BYTES} bytes")
    body, has_more = bytearray(), True
    try:
        async with asyncio.timeout(_BODY_WITHIN_S):
            while has_more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise _ClientGone
                body += event["body"]
                has_more = event["more_body"]
    except TimeoutError:
        raise _Refusal(408, f"the body took longer than {_BODY_WITHIN_S:g} s") from None
    return bytes(body)


def _parse_body(body: bytes, instant_time: InstantTime) -> list[MarkerName]:
    try:
        texts = json.loads(body)["markers"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise _Refusal(400, 'not a JSON object with "markers"') from None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _Refusal(400, "markers are a list of texts")
    if len(texts) > MOST_MARKERS:
        raise _Refusal(413, f"more than {MOST_MARKERS} markers")
    try:
        return [parse_announced(text, instant_time) for text in texts]
    except InputError as error:
        raise _Refusal(400, str(error)) from None
