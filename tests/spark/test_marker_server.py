"""The marker server and its client: nothing acknowledged is lost, nothing foreign gets in."""

from __future__ import annotations

import http.client
import json
import logging
import pickle
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from hoodoo.concurrency.markers import load_markers
from hoodoo.errors import EarlyConflict, EngineFailed, HoodooError, InputError, StorageError
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.runtime.env import Env
from hoodoo.spark.marker_server import client as marker_client
from hoodoo.spark.marker_server import connections, routes
from hoodoo.spark.marker_server import server as marker_server
from hoodoo.spark.marker_server.client import ServedMarkers
from hoodoo.spark.marker_server.protocol import MOST_BODY_BYTES, MOST_MARKERS, TOKEN_HEADER
from hoodoo.spark.marker_server.server import MarkerServer, serve_markers
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.traced import TracedStorage

T = InstantTime("20260102030405006")
DIRECTORY = f".hoodie/.temp/{T}"
FILES = 20
CONFLICT = EarlyConflict(
    "another write is faster",
    instant=T,
    conflicting_instants=("20260102030405001",),
    file_groups=("p/f1-0",),
)

_names = count()


def marker(number: int) -> MarkerName:
    return MarkerName(f"city=rome/f{number}-0_{number}-1-0_{T}.parquet", MarkerKind.CREATE)


def memory() -> MemoryStorage:
    return MemoryStorage(f"marker-server-{next(_names)}")


def server_on(
    env: Env,
    *,
    files: int = FILES,
    interval_ms: int = 50,
    find_conflict: Callable[[], HoodooError | None] = lambda: None,
) -> MarkerServer:
    return MarkerServer(
        env,
        T,
        host="127.0.0.1",
        files=files,
        interval_ms=interval_ms,
        find_conflict=find_conflict,
    )


def stored(env: Env) -> set[MarkerName]:
    found = load_markers(env, T)
    assert not found.foreign
    return set(found.files)


def ask(
    client: ServedMarkers,
    method: str = "POST",
    path: str = "/v1/markers",
    body: bytes = b"",
    **headers: str,
) -> tuple[int, dict[str, object]]:
    """One request by hand."""
    connection = http.client.HTTPConnection(client.host, client.port, timeout=20)
    try:
        fields = {TOKEN_HEADER: client.token} | {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, body, fields)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def post(client: ServedMarkers, *texts: str) -> int:
    return ask(client, body=json.dumps({"markers": texts}).encode())[0]


def raw(client: ServedMarkers, data: bytes = b"") -> socket.socket:
    opened = socket.create_connection((client.host, client.port), timeout=20)
    opened.sendall(data)
    return opened


def is_closed_by_server(opened: socket.socket) -> bool:
    """Waits until it is, or the socket's time is over."""
    try:
        while opened.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@contextmanager
def server_process(uri: str) -> Iterator[tuple[subprocess.Popen[bytes], ServedMarkers]]:
    """A server in a process of its own, as a driver is; killed at the end."""
    program = Path(__file__).parents[1] / "support" / "marker_server_process.py"
    command = [sys.executable, str(program), uri, T]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process, pickle.loads(bytes.fromhex(process.stdout.readline().decode()))
    finally:
        process.kill()
        process.communicate()


def server_threads() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("hoodoo-marker")}


class SlowStorage(TracedStorage):
    """Writes of batches wait until they are let go; `failure` has them fail then."""

    def __init__(self) -> None:
        super().__init__(memory(), before=self._wait)
        self.began = threading.Semaphore(0)
        self.go = threading.Event()
        self.failure: StorageError | None = None

    def _wait(self, verb: str, path: str) -> None:
        if verb in ("create", "replace") and not path.endswith(".type"):
            self.began.release()
            assert self.go.wait(30)
            if self.failure is not None:
                raise self.failure


@pytest.fixture
def env() -> Env:
    return Env(memory())


@pytest.fixture
def warnings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """What is warned of by a process that has met no server yet."""
    monkeypatch.setattr(marker_client, "_avoid_since", {})
    monkeypatch.setattr(marker_client, "_warned_servers", set())
    monkeypatch.setattr(marker_server, "_warned_reasons", set())
    caplog.set_level(logging.WARNING, "hoodoo.spark")
    return caplog


def test_markers_of_many_clients_are_stored_when_answered(env: Env) -> None:
    with server_on(env) as server:
        client = pickle.loads(pickle.dumps(server.client))

        def work(first: int) -> None:
            for number in range(first, 400, 8):
                client.announce(env, T, [marker(number)], number=number)
                assert marker(number) in stored(env)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
        assert ask(client, "GET")[1] == {"markers": sorted(map(str, map(marker, range(400))))}
    assert stored(env) == set(map(marker, range(400)))
    names = [entry.path for entry in env.storage.list(DIRECTORY)]
    assert len(names) <= FILES + 1
    assert set(names) <= {f"{DIRECTORY}/MARKERS{n}" for n in (".type", *range(FILES))}


def test_a_killed_server_has_lost_nothing_that_it_answered(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/table"
    answered: list[MarkerName] = []
    enough = threading.Event()
    with server_process(uri) as (process, client):

        def work(first: int) -> None:
            for number in count(first, 4):
                try:
                    marker_client._connection_of(client).post(
                        json.dumps({"markers": [str(marker(number))]}).encode()
                    )
                except marker_client._Unreachable:
                    return
                answered.append(marker(number))
                if len(answered) >= 100:
                    enough.set()

        with ThreadPoolExecutor(4) as threads:
            done = [threads.submit(work, first) for first in range(4)]
            assert enough.wait(30)
            process.kill()
            for each in done:
                each.result()
    assert set(answered) <= stored(Env.of(uri))


def test_a_request_waits_for_its_batch_and_others_join_the_next_one() -> None:
    storage = SlowStorage()
    with server_on(Env(storage), interval_ms=600_000) as server, ThreadPoolExecutor(3) as threads:
        first = threads.submit(post, server.client, str(marker(1)))
        assert storage.began.acquire(timeout=10)
        others = [threads.submit(post, server.client, str(marker(n))) for n in (2, 3)]
        # An answer to another request shows that the server had time for these.
        assert ask(server.client, "GET") == (200, {"markers": []})
        assert not first.done()
        assert not any(each.done() for each in others)
        storage.go.set()
        assert [each.result(10) for each in (first, *others)] == [200, 200, 200]
    assert stored(Env(storage)) == {marker(1), marker(2), marker(3)}


def test_a_slow_store_has_several_batches_under_way_up_to_the_limit() -> None:
    storage = SlowStorage()
    with (
        server_on(Env(storage), files=3, interval_ms=1) as server,
        ThreadPoolExecutor(5) as threads,
    ):
        requests = []
        for number in range(3):
            requests.append(threads.submit(post, server.client, str(marker(number))))
            assert storage.began.acquire(timeout=10)
        requests += [threads.submit(post, server.client, str(marker(n))) for n in (3, 4)]
        assert not storage.began.acquire(timeout=0.2)
        storage.go.set()
        assert [each.result(10) for each in requests] == [200] * 5
    names = [entry.path.rpartition("/")[2] for entry in storage.list(DIRECTORY)]
    assert names == ["MARKERS.type", "MARKERS0", "MARKERS1", "MARKERS2"]
    assert stored(Env(storage)) == set(map(marker, range(5)))


def test_a_failed_batch_fails_its_requests_and_is_not_counted() -> None:
    storage = SlowStorage()
    storage.failure = StorageError("MARKERS0", "the disk is full")
    storage.go.set()
    with server_on(Env(storage)) as server:
        status, answer = ask(server.client, body=json.dumps({"markers": [str(marker(1))]}).encode())
        assert status == 503
        assert "the disk is full" in str(answer["error"])
        assert ask(server.client, "GET") == (200, {"markers": []})
        storage.failure = None
        assert post(server.client, str(marker(1))) == 200
    assert stored(Env(storage)) == {marker(1)}


def test_a_marker_announced_again_is_answered_and_not_written(env: Env) -> None:
    storage = TracedStorage(env.storage)
    with server_on(Env(storage)) as server:
        assert post(server.client, str(marker(1)), str(marker(1))) == 200
        storage.clear()
        assert post(server.client, str(marker(1))) == 200
        assert post(server.client) == 200
        assert not storage.operations


def test_delete_removes_the_directory(env: Env) -> None:
    with server_on(env) as server:
        assert post(server.client, str(marker(1))) == 200
        assert ask(server.client, "DELETE") == (200, {})
        assert not list(env.storage.list(DIRECTORY))
        assert ask(server.client, "GET") == (200, {"markers": []})


def test_a_conflict_reaches_the_task_with_all_its_fields(env: Env) -> None:
    conflicts: list[HoodooError] = []
    with server_on(env, find_conflict=lambda: conflicts[-1] if conflicts else None) as server:
        client = server.client
        client.announce(env, T, [marker(1)], number=0)
        assert ask(client, "GET", "/v1/conflict") == (200, {"conflict": None})
        conflicts.append(CONFLICT)
        for _ in range(2):
            with pytest.raises(EarlyConflict, match="another write is faster") as caught:
                client.announce(env, T, [marker(2)], number=0)
            assert caught.value.__dict__ == CONFLICT.__dict__
        answer = ask(client, "GET", "/v1/conflict")[1]["conflict"]
        assert isinstance(answer, dict)
        assert answer["file_groups"] == ["p/f1-0"]
    assert stored(env) == {marker(1)}


def test_a_conflict_found_while_the_batch_is_written_is_told_at_once() -> None:
    storage, conflicts = SlowStorage(), list[HoodooError]()
    server = server_on(Env(storage), find_conflict=lambda: conflicts[-1] if conflicts else None)
    with server, ThreadPoolExecutor(1) as threads:
        request = threads.submit(post, server.client, str(marker(1)))
        assert storage.began.acquire(timeout=10)
        conflicts.append(CONFLICT)
        storage.go.set()
        assert request.result(10) == 409


def test_without_the_server_a_task_writes_a_batch_of_its_own(
    env: Env, warnings: pytest.LogCaptureFixture
) -> None:
    with server_on(env) as server:
        client = server.client
        client.announce(env, T, [marker(1)], number=1)
    client.announce(env, T, [marker(2)], number=1)
    client.announce(env, T, [marker(3), marker(4)], number=1)
    names = [entry.path.rpartition("/")[2] for entry in env.storage.list(DIRECTORY)]
    assert names == ["MARKERS.type", "MARKERS0", f"MARKERS{FILES + 1}", f"MARKERS{FILES + 2}"]
    assert env.storage.read(f"{DIRECTORY}/MARKERS{FILES + 2}") == (
        f"{marker(3)}\n{marker(4)}\n".encode()
    )
    assert stored(env) == set(map(marker, range(1, 5)))
    assert len(warnings.records) == 1
    assert "marker_server_unreachable" in warnings.text
    assert client.token not in warnings.text
    assert client.token not in repr(client)


def test_a_server_that_never_answers_is_waited_for_once(
    env: Env, warnings: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_client, "_ANSWER_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = ServedMarkers("127.0.0.1", deaf.getsockname()[1], "token", FILES)
        started = time.monotonic()
        for number in range(50):
            client.announce(env, T, [marker(number)], number=number)
        assert time.monotonic() - started < 2
    assert stored(env) == set(map(marker, range(50)))
    assert len(warnings.records) == 1


def test_a_failing_server_is_gone_around(env: Env, warnings: pytest.LogCaptureFixture) -> None:
    storage = SlowStorage()
    storage.failure = StorageError("MARKERS0", "the disk is full")
    storage.go.set()
    with server_on(Env(storage)) as server:
        server.client.announce(env, T, [marker(1)], number=0)
    assert stored(env) == {marker(1)}


def test_an_idle_connection_that_was_closed_is_opened_again(
    env: Env, warnings: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 0.05)
    with server_on(env) as server:
        client = server.client
        client.announce(env, T, [marker(1)], number=0)
        kept = marker_client._connection_of(client)._http
        assert kept is not None
        kept.sock.settimeout(10)
        assert kept.sock.recv(1, socket.MSG_PEEK) == b""
        client.announce(env, T, [marker(2)], number=0)
    assert stored(env) == {marker(1), marker(2)}
    assert not warnings.records
    assert len(list(env.storage.list(DIRECTORY))) == 2


def test_more_markers_than_fit_into_one_request_are_sent_in_several(env: Env) -> None:
    many = [marker(number) for number in range(MOST_MARKERS + 1)]
    long = [
        MarkerName(f"city={'ü' * 9_000}/f{n}-0_{n}-1-0_{T}.parquet", MarkerKind.CREATE)
        for n in range(40)
    ]
    with server_on(env) as server:
        server.client.announce(env, T, [*many, *long], number=0)
        server.client.announce(env, T, [], number=0)
        assert stored(env) == {*many, *long}
    assert not env.storage.exists(f"{DIRECTORY}/MARKERS{FILES}")


@pytest.mark.parametrize("token", ["", "x", "wrong" * 9])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/markers"), ("GET", "/v1/markers"), ("DELETE", "/v1/markers"), ("GET", "/")],
)
def test_nothing_is_done_without_the_token(env: Env, token: str, method: str, path: str) -> None:
    with server_on(env) as server:
        assert post(server.client, str(marker(1))) == 200
        stranger = replace(server.client, token=token)
        body = json.dumps({"markers": [str(marker(2))]}).encode()
        assert ask(stranger, method, path, body) == (401, {"error": "wrong or missing token"})
        assert ask(server.client, "GET")[1] == {"markers": [str(marker(1))]}
    assert stored(env) == {marker(1)}


def test_a_task_of_another_write_is_told_so(env: Env) -> None:
    with server_on(env) as server, pytest.raises(EngineFailed, match="wrong or missing token"):
        replace(server.client, token="x").announce(env, T, [marker(1)], number=0)
    assert not stored(env)


def test_without_the_token_the_body_is_not_waited_for(env: Env) -> None:
    with server_on(env) as server:
        head = "POST /v1/markers HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        with raw(server.client, head.encode()) as opened:
            assert opened.recv(65536).startswith(b"HTTP/1.1 401 ")
            assert is_closed_by_server(opened)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/markers/x", 404),
        ("PUT", "/v1/markers", 405),
        ("DELETE", "/v1/conflict", 405),
    ],
)
def test_other_routes_are_not_there(env: Env, method: str, path: str, status: int) -> None:
    with server_on(env) as server:
        assert ask(server.client, method, path)[0] == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"{}",
        b'{"markers": "x"}',
        b'{"markers": [1]}',
        b'{"markers": [["x"]]}',
        b"[" * 100_000,
        b'{"markers": [' + b"9" * 100_000 + b"]}",
        b"\xff\xfe",
    ],
)
def test_a_body_that_makes_no_sense_is_refused(env: Env, body: bytes) -> None:
    with server_on(env) as server:
        assert ask(server.client, body=body)[0] == 400
        assert post(server.client, str(marker(1))) == 200


@pytest.mark.parametrize(
    "text",
    [
        f"../f-0_0-1-0_{T}.parquet.marker.CREATE",
        f"/tmp/f-0_0-1-0_{T}.parquet.marker.CREATE",
        f".hoodie/f-0_0-1-0_{T}.parquet.marker.CREATE",
        "p/f-0_0-1-0_20260102030405007.parquet.marker.CREATE",
        f"p\n/f-0_0-1-0_{T}.parquet.marker.CREATE",
        f"p\ud800/f-0_0-1-0_{T}.parquet.marker.CREATE",
    ],
)
def test_nothing_of_a_request_with_a_bad_marker_is_written(env: Env, text: str) -> None:
    with server_on(env) as server:
        assert post(server.client, str(marker(1)), text, str(marker(2))) == 400
        bad = MarkerName(text.removesuffix(".marker.CREATE"), MarkerKind.CREATE)
        with pytest.raises(InputError, match="refused a request"):
            server.client.announce(env, T, [bad], number=0)
        assert ask(server.client, "GET")[1] == {"markers": []}
    assert not list(env.storage.list(DIRECTORY))


def test_bodies_and_requests_have_bounds(env: Env) -> None:
    with server_on(env) as server:
        texts = json.dumps({"markers": [str(marker(n)) for n in range(MOST_MARKERS + 1)]})
        assert ask(server.client, body=texts.encode())[0] == 413
        head = f"POST /v1/markers HTTP/1.1\r\n{TOKEN_HEADER}: {server.client.token}\r\n{{}}\r\n\r\n"
        for line, status in (
            (f"content-length: {MOST_BODY_BYTES + 1}", b"413"),
            (f"content-length: {10**30}", b"4"),
            ("transfer-encoding: chunked", b"411"),
        ):
            with raw(server.client, head.format(line).encode()) as opened:
                assert opened.recv(65536).startswith(b"HTTP/1.1 " + status)
                assert is_closed_by_server(opened)
        assert ask(server.client, "GET")[1] == {"markers": []}


@contextmanager
def half_open(client: ServedMarkers, number: int) -> Iterator[list[socket.socket]]:
    """Connections with nothing sent, half a head, and half a body."""
    token = f"{TOKEN_HEADER}: {client.token}"
    starts = (
        b"",
        b"POST /v1/mark",
        f"POST /v1/markers HTTP/1.1\r\n{token}\r\n".encode(),
        f"POST /v1/markers HTTP/1.1\r\n{token}\r\ncontent-length: 99\r\n\r\n{{".encode(),
    )
    with ExitStack() as stack:
        yield [stack.enter_context(raw(client, starts[n % len(starts)])) for n in range(number)]


def test_half_open_connections_do_not_keep_others_out(env: Env) -> None:
    with server_on(env) as server, half_open(server.client, 200) as opened:
        for number in range(50):
            assert post(server.client, str(marker(number))) == 200
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 5
        assert all(map(is_closed_by_server, opened))
    assert stored(env) == set(map(marker, range(50)))
    assert not server_threads()


def test_half_open_connections_are_closed_in_time(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEAD_WITHIN_S", 0.2)
    monkeypatch.setattr(routes, "_BODY_WITHIN_S", 0.2)
    with server_on(env) as server, half_open(server.client, 40) as opened:
        assert all(map(is_closed_by_server, opened))


def test_a_client_that_sends_byte_by_byte_is_closed_in_time(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEAD_WITHIN_S", 0.3)
    with server_on(env) as server, raw(server.client) as slow:
        slow.settimeout(0.02)
        started = time.monotonic()
        for byte in b"GET /v1/markers HTTP/1.1\r\nx: " + b"y" * 1_000:
            try:
                slow.sendall(bytes([byte]))
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            pytest.fail("the server never closed it")
        assert time.monotonic() - started < 5


def test_a_head_without_end_is_cut_off(env: Env) -> None:
    with server_on(env) as server, raw(server.client) as greedy:
        sent = 0
        try:
            greedy.sendall(b"GET / HTTP/1.1\r\n")
            while sent < 64 << 20:
                sent += greedy.send(b"x: " + b"y" * 65_000 + b"\r\n")
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert sent < 64 << 20
        assert post(server.client, str(marker(1))) == 200


def test_the_oldest_stranger_gives_way_when_there_are_too_many(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_MOST_CONNECTIONS", 10)
    monkeypatch.setattr(connections, "_HEAD_WITHIN_S", 600.0)
    with server_on(env) as server:
        server.client.announce(env, T, [marker(1)], number=0)
        kept = marker_client._connection_of(server.client)._http
        with half_open(server.client, 3), ExitStack() as stack:
            strangers = [stack.enter_context(raw(server.client)) for _ in range(30)]
            assert all(map(is_closed_by_server, strangers[:20]))
            server.client.announce(env, T, [marker(2)], number=0)
            assert marker_client._connection_of(server.client)._http is kept
    assert stored(env) == {marker(1), marker(2)}


def test_a_server_stops_with_its_socket_and_threads(env: Env) -> None:
    with server_on(env) as server:
        client = server.client
        client.announce(env, T, [marker(1)], number=0)
        assert server_threads()
    assert not server_threads()
    with pytest.raises(ConnectionRefusedError):
        raw(client)
    server.stop()  # again


def test_requests_that_wait_are_refused_when_the_server_stops() -> None:
    storage = SlowStorage()
    server = server_on(Env(storage), interval_ms=600_000)
    head = f"POST /v1/markers HTTP/1.1\r\n{TOKEN_HEADER}: {server.client.token}\r\n"
    with server, ThreadPoolExecutor(3) as threads:
        first = threads.submit(post, server.client, str(marker(1)))
        assert storage.began.acquire(timeout=10)
        body = json.dumps({"markers": [str(marker(2))]})
        with raw(server.client, f"{head}content-length: {len(body)}\r\n\r\n".encode()) as late:
            second = threads.submit(post, server.client, str(marker(3)))
            assert ask(server.client, "GET") == (200, {"markers": []})
            stopping = threads.submit(server.stop)
            assert is_refused(second)
            late.sendall(body.encode())  # of a request that came before, and ends after
            assert late.recv(65536).startswith(b"HTTP/1.1 503 ")
            storage.go.set()
            assert first.result(10) == 200
            stopping.result(10)
    assert stored(Env(storage)) == {marker(1)}


def is_refused(request: Future[int]) -> bool:
    """By an answer, or by the socket, if it came when that was closed already."""
    try:
        return request.result(10) == 503
    except ConnectionError:
        return True


def test_a_server_that_cannot_start_is_done_without(
    env: Env, warnings: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for _ in range(2):
            server = MarkerServer(
                env,
                T,
                host="127.0.0.1",
                port=port,
                files=1,
                interval_ms=1,
                find_conflict=lambda: None,
            )
            with serve_markers(server) as client:
                assert client is None
    assert len(warnings.records) == 1
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("hoodoo.spark.marker_server.connections", "uvicorn.config"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with serve_markers(server_on(env)) as client:
        assert client is None
    assert "uvicorn is not installed" in warnings.text


def test_the_packages_are_only_imported_when_a_server_starts() -> None:
    code = (
        "import sys, hoodoo.spark.marker_server.client, hoodoo.spark.marker_server.server\n"
        "assert not {'uvicorn', 'httptools', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "seconds", [5, pytest.param(60, marks=pytest.mark.nightly)], ids=lambda s: f"{s}s"
)
def test_many_requests_for_a_while_lose_nothing(
    tmp_path: Path, seconds: int, record_property: Callable[[str, object], None]
) -> None:
    """As fast as clients come, up to 1,000 requests a second."""
    uri, clients, rate = f"file://{tmp_path}/table", 32, 1_000
    env = Env.of(uri)
    with server_process(uri) as (_, client), ThreadPoolExecutor(clients) as threads:
        started = time.monotonic()

        def work(first: int) -> list[float]:
            took = []
            for number in range(first, rate * seconds, clients):
                due = started + number / rate
                time.sleep(max(0.0, due - time.monotonic()))  # the load, not a wait for something
                if time.monotonic() - started > 2 * seconds:
                    break  # a busy machine: fewer requests
                client.announce(env, T, [marker(number)], number=number)
                took.append(time.monotonic() - due)
            return took

        took = [each for done in threads.map(work, range(clients)) for each in done]
        lasted = time.monotonic() - started
        assert len(ask(client, "GET")[1]["markers"]) == len(took)  # type: ignore[arg-type]  # a list
    assert len(stored(env)) == len(took)
    assert not env.storage.exists(f"{DIRECTORY}/MARKERS{FILES}"), "a client went around the server"
    cuts = statistics.quantiles(took, n=100)
    figures = f"{len(took) / lasted:.0f}/s p50={cuts[49] * 1000:.1f}ms p99={cuts[98] * 1000:.1f}ms"
    record_property("marker_load", figures)
    print(figures)
