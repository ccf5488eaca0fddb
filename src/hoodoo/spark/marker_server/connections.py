"""HTTP connections of the marker server, with bounds that uvicorn itself does not have.

A client must finish the head of a request in time and in few bytes, and its request must end in
time; and there are only so many connections. When there are more, the oldest one that is idle
gives way, first of those that never showed the token: half-open connections cannot keep others
out.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

KEEP_ALIVE_S = 60
"""Tasks announce a file, and then write it; the next one is often half a minute away."""

_MOST_CONNECTIONS = 1_000
_MOST_HEAD_BYTES = 16 * 1024
_HEAD_WITHIN_S = 5.0
_REQUEST_WITHIN_S = 30.0


class Connections:
    """The open connections of a server, oldest first."""

    def __init__(self, application: Any) -> None:
        """`application` is an ASGI one; it marks connections that show the token `is_trusted`."""
        # Nothing of the process's own logging is touched.
        self._config = Config(
            application,
            interface="asgi3",
            lifespan="off",
            ws="none",
            http=HttpToolsProtocol,
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._state = ServerState()
        self._open: dict[GuardedProtocol, None] = {}

    def make_protocol(self) -> GuardedProtocol:
        """For a new connection."""
        return GuardedProtocol(self._config, self._state, self)

    def admit(self, new: GuardedProtocol) -> None:
        """Count a connection, and close the one that gives way to it."""
        if len(self._open) >= _MOST_CONNECTIONS:
            idle = [each for each in self._open if not each.is_busy]
            strangers = [each for each in idle if not each.is_trusted]
            oldest = (strangers or idle or [new])[0]
            oldest.transport.abort()
            self.leave(oldest)  # now: several may come before the loop tells that it is closed
            if oldest is new:
                return
        self._open[new] = None

    def leave(self, connection: GuardedProtocol) -> None:
        """The connection is closed."""
        self._open.pop(connection, None)

    async def close(self, within_s: float) -> None:
        """Let the answers under way go out, within bounds, and close everything."""
        for connection in list(self._open):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=within_s)
        for task in self._state.tasks:
            task.cancel()
        for connection in list(self._open):
            connection.transport.abort()
        await asyncio.sleep(0)


class GuardedProtocol(HttpToolsProtocol):
    """One connection, with a deadline for whatever it is waiting for."""

    def __init__(self, config: Config, state: ServerState, connections: Connections) -> None:
        super().__init__(config, state, {"connection": self})
        self.access_log = False
        self.is_trusted = False
        self._guard = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Part of asyncio's protocol."""
        # An answer goes out in two pieces; the second would wait 40 ms for the first one's receipt.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._guard.admit(self)
        self._end_within(_HEAD_WITHIN_S)

    def data_received(self, data: bytes) -> None:
        """Part of asyncio's protocol."""
        if self.transport.is_closing():
            return
        if not self.is_busy:
            if self._head_bytes > _MOST_HEAD_BYTES:
                self.transport.abort()
                return
            self._head_bytes += len(data)
            if self._deadline is None:
                self._end_within(_HEAD_WITHIN_S)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Part of the parser's protocol."""
        super().on_headers_complete()
        self._head_bytes = 0
        self._end_within(_REQUEST_WITHIN_S)

    def on_response_complete(self) -> None:
        """Part of uvicorn's protocol; idle connections have its own time-out."""
        self._cancel_deadline()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Part of uvicorn's protocol. A client that does not read must not keep it open."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of asyncio's protocol."""
        self._cancel_deadline()
        self._guard.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def _end_within(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
