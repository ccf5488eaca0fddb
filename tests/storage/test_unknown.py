"""Writes whose answers are lost, on a real S3 server behind a network that fails on purpose."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from hoodoo.errors import ObjectExists, OutcomeUnknown, PreconditionFailed, StorageError
from hoodoo.storage import object_client, open_storage
from hoodoo.storage.storage import Storage
from hoodoo_testing.servers.faulty_proxy import (
    ANSWER_LOST,
    BREAKS_OFF,
    HANGS,
    REQUEST_LOST,
    FaultyProxy,
    ProxyFault,
    faulty_proxy,
)
from hoodoo_testing.servers.object_stores import S3Server

pytestmark = pytest.mark.server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultyProxy]:
    with faulty_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def storage(s3: S3Server, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setattr(object_client, "_WRITE_BACKOFF_S", (0.001,) * 3)
    return open_through(proxy, s3, timeout="60s")


def open_through(proxy: FaultyProxy, s3: S3Server, *, timeout: str) -> Storage:
    options = dict(s3.options) | {"aws_endpoint": proxy.endpoint, "timeout": timeout}
    return open_storage(s3.uri(str(uuid.uuid4())), options)


@pytest.mark.parametrize("fault", [ANSWER_LOST, ProxyFault(passed_on=True, answer=(500, "X"))])
def test_write_that_landed_without_answer_is_unknown(
    storage: Storage, proxy: FaultyProxy, fault: ProxyFault
) -> None:
    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown) as raised:
        storage.create("a", b"mine")
    assert raised.value.path == "a"
    assert storage.read("a") == b"mine"

    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        storage.replace("a", b"mine too", if_match=storage.stat("a").etag)
    assert storage.read("a") == b"mine too"

    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        storage.put("a", b"put")
    assert storage.read("a") == b"put"

    stream = storage.open_write("b")
    stream.write(b"streamed")
    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        stream.close()
    assert stream.closed
    assert storage.read("b") == b"streamed"

    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        storage.delete("a")
    assert not storage.exists("a")


def test_write_that_times_out_is_unknown(s3: S3Server, proxy: FaultyProxy) -> None:
    storage = open_through(proxy, s3, timeout="1s")
    proxy.faults = [HANGS]
    with pytest.raises(OutcomeUnknown):
        storage.create("a", b"mine")
    assert proxy.passed_on.acquire(timeout=60), "the write reaches the server all the same"
    assert storage.read("a") == b"mine"


def test_write_that_did_not_land_without_answer_is_unknown(
    storage: Storage, proxy: FaultyProxy
) -> None:
    proxy.faults = [REQUEST_LOST]
    with pytest.raises(OutcomeUnknown):
        storage.create("a", b"1")
    assert not storage.exists("a")


def test_no_write_is_repeated_by_the_client(storage: Storage, proxy: FaultyProxy) -> None:
    proxy.requests.clear()
    proxy.faults = [ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        storage.create("a", b"1")
    assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (429, "TooManyRequests"),
        (503, "SlowDown"),
        (409, "ConditionalRequestConflict"),
        (409, "OperationAborted"),
    ],
)
def test_busy_store_is_tried_again(
    storage: Storage, proxy: FaultyProxy, answer: tuple[int, str]
) -> None:
    proxy.faults = [ProxyFault(answer=answer)] * 2
    first = storage.create("a", b"1")
    proxy.faults = [ProxyFault(answer=answer)]
    with pytest.raises(ObjectExists):
        storage.create("a", b"2")
    proxy.faults = [ProxyFault(answer=answer)] * 2
    storage.replace("a", b"3", if_match=first.etag)
    proxy.faults = [ProxyFault(answer=answer)]
    with pytest.raises(PreconditionFailed):
        storage.replace("a", b"4", if_match=first.etag)
    assert storage.read("a") == b"3"

    proxy.faults = [ProxyFault(answer=answer)] * 9
    with pytest.raises(StorageError, match="busy") as raised:
        storage.create("b", b"1")
    assert type(raised.value) is StorageError
    proxy.faults = []
    assert not storage.exists("b")


def test_no_request_is_sent_after_the_deadline(
    storage: Storage, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_client, "_WRITE_BACKOFF_S", (0.05,) * 100)  # 5 s and more
    etag = storage.create("a", b"1").etag

    def write(way: str, within_s: float | None) -> None:
        if way == "create":
            storage.create("b", b"2", within_s=within_s)
        else:
            storage.replace("a", b"2", if_match=etag, within_s=within_s)

    for way in ("create", "replace"):
        proxy.faults = [ProxyFault(answer=(503, "SlowDown"))] * 1000
        proxy.arrivals.clear()
        began = time.monotonic()
        with pytest.raises(StorageError, match="busy") as raised:
            write(way, 0.5)
        assert type(raised.value) is StorageError
        assert len(proxy.arrivals) > 2
        assert max(proxy.arrivals) < began + 0.5 + 0.2  # for the way of the last one
        proxy.arrivals.clear()
        with pytest.raises(StorageError, match="time for it ran out") as raised:
            write(way, -0.001)
        assert type(raised.value) is StorageError
        assert proxy.arrivals == []
    proxy.faults = []
    assert not storage.exists("b")
    assert storage.read("a") == b"1"


def test_busy_store_is_tried_again_until_the_deadline(storage: Storage, proxy: FaultyProxy) -> None:
    proxy.faults = [ProxyFault(answer=(429, "TooManyRequests"))] * 2
    etag = storage.create("a", b"1", within_s=60).etag
    proxy.faults = [ProxyFault(answer=(429, "TooManyRequests")), ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        storage.replace("a", b"2", if_match=etag, within_s=60)
    assert storage.read("a") == b"2"


PATIENCE_S = 15


def seconds_of_an_upload(storage: Storage, proxy: FaultyProxy) -> float:
    """After how long a large write gives up whose answer never comes; we wait no longer."""
    proxy.faults = [HANGS]
    end = threading.Timer(PATIENCE_S, proxy.end.set)
    end.start()
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        storage.create(str(uuid.uuid4()), b"x" * (9 << 20))
    end.cancel()
    return time.monotonic() - began


def test_an_upload_ends_with_its_limit(
    s3: S3Server, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_client, "SMALL_TIMEOUT_S", 0.1)  # the least that a limit can be
    options = dict(s3.options) | {"aws_endpoint": proxy.endpoint}
    made = open_storage(s3.uri(str(uuid.uuid4())), options, upload_limit_s=1.5)
    for storage in (made, pickle.loads(pickle.dumps(made))):
        assert 1.4 < seconds_of_an_upload(storage, proxy) < PATIENCE_S


def test_timeout_set_by_the_user_wins_over_the_limit(s3: S3Server, proxy: FaultyProxy) -> None:
    options = dict(s3.options) | {"aws_endpoint": proxy.endpoint, "timeout": "1s"}
    storage = open_storage(s3.uri(str(uuid.uuid4())), options, upload_limit_s=600)
    assert seconds_of_an_upload(storage, proxy) < PATIENCE_S


@pytest.mark.parametrize("answer", [(400, "BadRequest"), (403, "AccessDenied"), (501, "Strange")])
def test_only_server_errors_leave_the_outcome_unknown(
    storage: Storage, proxy: FaultyProxy, answer: tuple[int, str]
) -> None:
    proxy.faults = [ProxyFault(answer=answer)]
    with pytest.raises(StorageError, match=answer[1]) as raised:
        storage.create("a", b"1")
    assert isinstance(raised.value, OutcomeUnknown) == (answer[0] >= 500)


def test_failed_reads_are_tried_again(storage: Storage, proxy: FaultyProxy) -> None:
    storage.create("d/a", b"12")
    proxy.methods = ("GET", "HEAD")
    for fault in (
        REQUEST_LOST,
        BREAKS_OFF,
        ProxyFault(answer=(503, "SlowDown")),
        ProxyFault(answer=(500, "X")),
    ):
        proxy.faults = [fault]
        assert storage.read("d/a") == b"12"
        proxy.faults = [fault]
        assert storage.read_version("d/a").data == b"12"
        proxy.faults = [fault]
        assert storage.open_read("d/a").read() == b"12"
        proxy.faults = [fault]
        assert storage.stat("d/a").size_bytes == 2
        proxy.faults = [fault]
        assert len(list(storage.list("d"))) == 1
        assert proxy.faults == []


def test_a_read_that_keeps_failing_keeps_its_type_in_arrow(
    storage: Storage, proxy: FaultyProxy
) -> None:
    storage.create("a", b"x" * 3_000_000)
    proxy.methods = ("GET",)
    with storage.open_read("a") as file:
        proxy.faults = [ProxyFault(answer=(403, "AccessDenied"))]
        with pytest.raises(StorageError, match="AccessDenied"):
            file.read(10)
