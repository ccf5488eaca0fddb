"""The marker server: executors announce files to the driver, which writes them down in batches.

It lives in a thread of the driver as long as the stage of one write. `docs/marker-server.md`
tells what it is for.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from hoodoo.concurrency.markers import MarkerBatches
from hoodoo.errors import EngineFailed, HoodooError
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.env import Env
from hoodoo.spark.marker_server.batches import MarkerFlushes
from hoodoo.spark.marker_server.client import ServedMarkers
from hoodoo.spark.marker_server.routes import MarkerRoutes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("hoodoo.spark")

_LOOPBACK = "127.0.0.1"
_READY_WITHIN_S = 10.0
_FLUSHES_END_WITHIN_S = 5.0
_ANSWERS_END_WITHIN_S = 1.0
_BACKLOG = 512

_warned_reasons: set[str] = set()


class MarkerServer:
    """Serves the markers of one write while its `with` block runs."""

    def __init__(
        self,
        env: Env,
        instant_time: InstantTime,
        *,
        host: str,
        files: int,
        interval_ms: int,
        find_conflict: Callable[[], HoodooError | None],
        bind: str | None = None,
        port: int = 0,
    ) -> None:
        """Executors reach it at `host`; it listens at `bind`, which is the same if not given.

        `find_conflict` is called for each request, in the server's thread: it must not wait.
        """
        self._env = env
        self._instant = instant_time
        self._host = host
        self._bind = bind or host
        self._port = port
        self._files = files
        self._interval_ms = interval_ms
        self._find_conflict = find_conflict
        self._token = secrets.token_urlsafe(32)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def client(self) -> ServedMarkers:
        """What executors announce with; it pickles."""
        return ServedMarkers(self._host, self._port, self._token, self._files)

    def __enter__(self) -> Self:
        """Raises `EngineFailed` if it cannot start."""
        try:
            import hoodoo.spark.marker_server.connections  # noqa: F401 - absent packages are found here
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            raise EngineFailed(f"the package {package} is not installed") from error
        try:
            listening = _listen(self._bind, self._port)
        except OSError as error:
            raise EngineFailed(f"cannot listen at {self._bind}:{self._port}: {error}") from error
        self._port = listening.getsockname()[1]
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="hoodoo-marker-server", daemon=True
        )
        self._thread.start()
        self._ready.wait(_READY_WITHIN_S)
        if self._failure is not None or not self._ready.is_set():
            self.stop()
            raise EngineFailed(f"the marker server did not start: {self._failure}")
        log.info("marker_server_started time=%s at=%s:%s", self._instant, self._host, self._port)
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, with its socket and its threads; batches under way get some seconds to end."""
        if self._thread is None:
            return
        if self._loop is not None and self._end is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_FLUSHES_END_WITHIN_S + _ANSWERS_END_WITHIN_S + 1)
        if self._thread.is_alive():
            log.warning("marker_server_still_stopping time=%s", self._instant)

    def _run(self, listening: socket.socket) -> None:
        try:
            with listening, asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._serve(listening))
        except BaseException as error:  # a thread's error is seen by nobody else
            self._failure = error
            log.exception("marker_server_failed time=%s", self._instant)
        finally:
            self._ready.set()

    async def _serve(self, listening: socket.socket) -> None:
        from hoodoo.spark.marker_server.connections import Connections

        self._end = asyncio.Event()
        batches = MarkerBatches(self._env, self._instant, files=self._files)
        flushes = MarkerFlushes(batches, files=self._files, interval_ms=self._interval_ms)
        connections = Connections(
            MarkerRoutes(self._instant, self._token, flushes, self._find_conflict)
        )
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            connections.make_protocol, sock=listening, backlog=_BACKLOG
        )
        self._ready.set()
        try:
            await self._end.wait()
        finally:
            server.close()
            await flushes.stop(_FLUSHES_END_WITHIN_S)
            await connections.close(_ANSWERS_END_WITHIN_S)


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((address[0], port), family=family, backlog=_BACKLOG)


@contextmanager
def serve_markers(server: MarkerServer) -> Iterator[ServedMarkers | None]:
    """The client of a server that runs during this block; None, with a warning, if it cannot."""
    try:
        server.__enter__()
    except EngineFailed as error:
        if str(error) not in _warned_reasons:
            _warned_reasons.add(str(error))
            log.warning("no_marker_server tasks_write_own_batches=true reason=%s", error)
        yield None
        return
    try:
        yield server.client
    finally:
        server.stop()


def driver_address(spark: SparkSession) -> tuple[str, str]:
    """Where executors reach the driver, and where it listens: on one machine, nowhere else."""
    context = spark.sparkContext
    if (context.master or "").startswith("local"):
        return _LOOPBACK, _LOOPBACK
    settings = context.getConf()
    host = settings.get("spark.driver.host", None) or socket.gethostname()
    return host, settings.get("spark.driver.bindAddress", None) or host
