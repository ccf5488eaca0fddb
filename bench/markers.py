"""Markers through the server in the driver, against one marker file each, to their end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from bench.clock import ratio_line
from hoodoo.concurrency.markers import announce, delete_markers, load_markers
from hoodoo.config.concurrency import MarkerType
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import marker_directory
from hoodoo.runtime.env import Env
from hoodoo.spark.marker_server.client import ServedMarkers
from hoodoo.spark.marker_server.server import MarkerServer
from hoodoo_testing.servers.object_stores import ServerUnavailable, seaweedfs

MARKERS = 10_000
CLIENTS = 8
PARTITIONS = 20
ROUNDS = ("cold", "warm")


def markers_of(instant: InstantTime, count: int = MARKERS) -> list[MarkerName]:
    """Markers of new base files in some partitions."""
    return [
        MarkerName(
            f"city=c{number % PARTITIONS}/{number:08x}-0000-4000-8000-000000000000-0"
            f"_{number}-1-0_{instant}.parquet",
            MarkerKind.CREATE,
        )
        for number in range(count)
    ]


def announce_one_by_one(
    markers: Sequence[MarkerName], announce_one: Callable[[MarkerName, int], None]
) -> list[float]:
    """Announce each marker by itself, from several clients; seconds of each call."""

    def work(client: int) -> list[float]:
        took = []
        for number in range(client, len(markers), CLIENTS):
            started = time.perf_counter()
            announce_one(markers[number], number)
            took.append(time.perf_counter() - started)
        return took

    with ThreadPoolExecutor(CLIENTS) as clients:
        return [seconds for took in clients.map(work, range(CLIENTS)) for seconds in took]


def direct(env: Env, instant: InstantTime) -> list[float]:
    """One empty file for each marker."""
    return announce_one_by_one(
        markers_of(instant),
        lambda marker, _: announce(env, instant, [marker], type=MarkerType.DIRECT),
    )


def _serve(pipe: Connection, uri: str, options: Mapping[str, str], instant: InstantTime) -> None:
    server = MarkerServer(
        Env.of(uri, options),
        instant,
        host="127.0.0.1",
        files=20,
        interval_ms=50,
        find_conflict=lambda: None,
    )
    with server:
        pipe.send(server.client)
        pipe.recv()


@contextmanager
def server_process(
    uri: str, options: Mapping[str, str], instant: InstantTime
) -> Iterator[ServedMarkers]:
    """A server in another process than its clients, as a driver is."""
    here, there = get_context("spawn").Pipe()
    arguments = (there, uri, dict(options), instant)
    process = get_context("spawn").Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send(None)
        process.join()


def served(env: Env, instant: InstantTime, client: ServedMarkers) -> list[float]:
    """The same through a server."""
    return announce_one_by_one(
        markers_of(instant),
        lambda marker, number: client.announce(env, instant, [marker], number=number),
    )


def measure(where: str, uri: str, options: Mapping[str, str]) -> None:
    """Print both ways, in turns, each time in a new marker directory."""
    env = Env.of(uri, options)
    for turn, state in enumerate(ROUNDS):
        instants = [InstantTime(f"2026010203040{turn}{number:03}") for number in range(2)]
        with server_process(uri, options, instants[0]) as client:
            ours_s, by_server = _timed(lambda: served(env, instants[0], client))  # noqa: B023 run at once
        theirs_s, by_file = _timed(lambda: direct(env, instants[1]))  # noqa: B023 run at once
        assert not env.storage.exists(f"{marker_directory(instants[0])}/MARKERS20")
        print(ratio_line(f"{MARKERS:,} markers by server, {where}, {state}", ours_s, theirs_s))
        for name, took in (("server", by_server), ("direct", by_file)):
            cuts = statistics.quantiles(took, n=100)
            print(f"  {name}: p50 {cuts[49] * 1000:.2f} ms, p99 {cuts[98] * 1000:.2f} ms a marker")
        _end(env, where, *instants)


def _end(env: Env, where: str, by_server: InstantTime, by_file: InstantTime) -> None:
    """Print what the end of a write costs: its markers are read, and deleted one by one."""
    seconds: dict[InstantTime, list[float]] = {}
    for instant in (by_server, by_file):
        started = time.perf_counter()
        assert len(load_markers(env, instant).files) == MARKERS
        loaded = time.perf_counter()
        delete_markers(env, instant)
        seconds[instant] = [loaded - started, time.perf_counter() - loaded]
    for number, verb in enumerate(("load", "delete")):
        pair = (seconds[by_server][number], seconds[by_file][number])
        print(ratio_line(f"  {verb} them, {where}", *pair))


def _timed(work: Callable[[], list[float]]) -> tuple[float, list[float]]:
    started = time.perf_counter()
    took = work()
    return time.perf_counter() - started, took


def run(folder: Path) -> None:
    """Print the figures on local disk and on an S3 server of this machine."""
    measure("local disk", f"file://{folder}/table", {})
    try:
        with seaweedfs(folder / "s3") as server:
            measure("S3 server", server.uri("table"), server.options)
    except ServerUnavailable as error:
        print(f"markers, S3 server: not measured ({error})")
