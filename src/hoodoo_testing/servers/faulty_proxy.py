"""A network that fails on purpose: an HTTP proxy in front of an S3 server.

It passes requests on, unless the next fault of its script says otherwise. Faults apply only to
requests of the methods that the script names, in order, one each.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ProxyFault:
    """What happens to one request instead of a plain answer."""

    passed_on: bool = False
    """The server sees the request."""
    answer: tuple[int, str] | None = None
    """Status and S3 error code that the client gets; None: the connection is reset."""
    hangs: bool = False
    """The client gets nothing at all until the proxy ends."""
    breaks_off: bool = False
    """The client gets half of the server's answer."""


ANSWER_LOST = ProxyFault(passed_on=True)
REQUEST_LOST = ProxyFault()
HANGS = ProxyFault(passed_on=True, hangs=True)
BREAKS_OFF = ProxyFault(passed_on=True, breaks_off=True)


@dataclass(slots=True)
class FaultyProxy:
    """A running proxy: its address, the faults to come, and the requests it saw."""

    endpoint: str
    faults: list[ProxyFault] = field(default_factory=list)
    methods: tuple[str, ...] = ("PUT", "DELETE", "POST")
    requests: list[str] = field(default_factory=list)
    """Method and path of each request."""
    arrivals: list[float] = field(default_factory=list)
    """When each of them came, by the monotonic clock."""
    passed_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released when the server has answered a request whose client will not hear of it."""
    end: threading.Event = field(default_factory=threading.Event)

    def next_fault(self, method: str) -> ProxyFault | None:
        """Take the fault that is due for a request of this method."""
        return self.faults.pop(0) if self.faults and method in self.methods else None


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """A proxy in front of the server at the URL `upstream`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    proxy = FaultyProxy(f"http://127.0.0.1:{server.server_port}")
    _Handler.proxies[server.server_port] = (proxy, urlsplit(upstream).netloc)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.end.set()
        server.shutdown()
        thread.join()
        server.server_close()
        del _Handler.proxies[server.server_port]


class _Handler(BaseHTTPRequestHandler):
    proxies: dict[int, tuple[FaultyProxy, str]] = {}  # noqa: RUF012 - one for all handlers
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: Nagle's algorithm would wait between them

    def _serve(self) -> None:
        assert isinstance(self.server, ThreadingHTTPServer)
        proxy, upstream = self.proxies[self.server.server_port]
        proxy.requests.append(f"{self.command} {self.path}")
        proxy.arrivals.append(time.monotonic())
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = proxy.next_fault(self.command)
        if fault is None:
            self._answer(*self._pass_on(upstream, body))
            return
        real = self._pass_on(upstream, body) if fault.passed_on else None
        proxy.passed_on.release()
        if fault.hangs:
            proxy.end.wait()
        elif fault.answer is not None:
            status, code = fault.answer
            text = f"<Error><Code>{code}</Code><Message>on purpose</Message></Error>"
            self._answer(status, {}, text.encode())
            return
        elif fault.breaks_off and real is not None:
            self._answer(*real, send=len(real[2]) // 2)
        self._reset()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - names that http.server calls

    def _pass_on(self, upstream: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(upstream, timeout=60)
        try:
            # The Host header stays as it came: it is part of what the client signed.
            connection.putrequest(self.command, self.path, skip_host=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: dict[str, str], body: bytes, *, send: int | None = None
    ) -> None:
        self.send_response_only(status)
        if self.command != "HEAD":
            headers = {name: value for name, value in headers.items() if not _is_framing(name)}
            headers["Content-Length"] = str(len(body))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:send])
        self.wfile.flush()

    def _reset(self) -> None:
        self.close_connection = True
        if not self.wfile.closed:
            self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def _is_framing(name: str) -> bool:
    return name.lower() in ("content-length", "transfer-encoding", "connection")
