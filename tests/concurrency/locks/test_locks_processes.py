"""Leases between real processes, on the disk of this machine and on a real S3 server."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from support.lock_process import contender

from hoodoo.concurrency.locks.lock import parse_holder
from hoodoo.concurrency.locks.table_lock import hold_lock, make_lock
from hoodoo.errors import LockLost, LockTimeout
from hoodoo.format.json_files import decode_lock_file
from hoodoo.model import paths
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.object_stores import S3Server

pytestmark = pytest.mark.slow

PREFIX = "hoodie.write.lock"
PROVIDERS = ["storage", "filesystem"]
SHORT = {
    f"{PREFIX}.storage.validity.timeout.secs": 3,
    f"{PREFIX}.storage.renew.interval.secs": 1,
}


def create(uri: str, options: Mapping[str, object]) -> TableRef:
    schema = pa.schema([("id", pa.int64())])
    return create_table(uri, schema=schema, record_key="id", options=options)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_update_is_lost(tmp_path: Path, provider: str) -> None:
    uri, options = str(tmp_path / "t"), {f"{PREFIX}.provider": provider}
    create(uri, options)
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        processes = [stack.enter_context(contender(uri, options)) for _ in range(4)]
        for process in processes:
            process.say("count", counter, 50)
        assert [process.answer() for process in processes] == ["counted 50"] * 4
    assert counter.read_text() == "200"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_process_gets_the_lock_in_time(tmp_path: Path, provider: str) -> None:
    uri, options = str(tmp_path / "t"), {f"{PREFIX}.provider": provider}
    create(uri, options)
    counter, stop = tmp_path / "counter", tmp_path / "stop"
    counter.write_text("0")
    with ExitStack() as stack:
        processes = [stack.enter_context(contender(uri, options)) for _ in range(4)]
        assert [process.ask("new") for process in processes] == ["ok"] * 4  # all have started
        for process in processes:
            process.say("count_until", counter, stop)
        time.sleep(2)
        stop.touch()
        turns = [int(process.answer().removeprefix("counted ")) for process in processes]
    assert int(counter.read_text()) == sum(turns)
    print(f"\nturns of four that want the lock all the time, {provider}: {sorted(turns)}")
    assert min(turns) > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_of_one_process_take_turns(tmp_path: Path, provider: str) -> None:
    ref = create(str(tmp_path / "t"), {f"{PREFIX}.provider": provider})
    order: list[int] = []
    started = threading.Semaphore(0)

    def work(me: int) -> None:
        started.release()
        with hold_lock(ref, "work"):
            order.append(me)

    with hold_lock(ref, "first"):
        threads = []
        for me in range(5):
            thread = threading.Thread(target=work, args=(me,))
            thread.start()
            started.acquire()
            time.sleep(0.05)  # let it stand in line; the order is what is tested
            threads.append(thread)
    for thread in threads:
        thread.join()
    assert order == list(range(5))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_lock_of_a_silent_process_is_taken_over(
    tmp_path: Path, provider: str, how: signal.Signals
) -> None:
    uri, options = str(tmp_path / "t"), {f"{PREFIX}.provider": provider, **SHORT}
    ref = create(uri, options)
    with contender(uri, options) as other:
        assert other.ask("try") == "ok"
        os.kill(other.pid, how)
        began = time.monotonic()
        with hold_lock(ref, "commit") as lock:
            waited = time.monotonic() - began
            assert 1.5 < waited < 6
            if how == signal.SIGSTOP:
                os.kill(other.pid, signal.SIGCONT)
                assert other.ask("check").startswith("LockLost")
                assert other.ask("confirm").startswith("LockLost")
                other.ask("release")
            lock.confirm_with_lock()
            lock.check_last_confirmation()
            path = paths.LOCK if provider == "storage" else ".hoodie/lock"
            assert (
                parse_holder(decode_lock_file(ref.env.storage.read(path)).owner).pid == os.getpid()
            )


def test_lease_is_renewed_in_the_background(tmp_path: Path) -> None:
    ref = create(str(tmp_path / "t"), SHORT)
    with hold_lock(ref, "commit") as lock:
        time.sleep(3.6)  # longer than a lease
        lock.check_last_confirmation()
        assert make_lock(ref, "other").try_acquire() is not None
    assert make_lock(ref, "other").holder() is None


def test_default_lock_excludes_other_processes(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create(uri, {})
    with contender(uri, {}) as other:
        assert other.ask("try") == "ok"
        ref = open_ref(uri, {f"{PREFIX}.wait_time_ms": 100})
        with pytest.raises(
            LockTimeout, match=rf"lock_process\.py on .*, process {other.pid} \(test\)"
        ):
            hold_lock(ref, "commit").__enter__()
    assert re.fullmatch(
        rb'\{"expired":false,"validUntil":\d{13},"owner":"[^"]+"\}',
        ref.env.storage.read(paths.LOCK),
    )


def test_in_process_lock_excludes_threads(tmp_path: Path) -> None:
    options = {f"{PREFIX}.provider": "in_process"}
    ref = create(str(tmp_path / "t"), options)
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with hold_lock(open_ref(ref.uri, options), "work") as lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0001)
                lock.confirm_with_lock()
                lock.ensure_publish_window()
                lock.check_last_confirmation()
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    brief = open_ref(ref.uri, {**options, f"{PREFIX}.wait_time_ms": 10})
    with pytest.raises(LockLost):
        make_lock(brief, "look").ensure_publish_window()
    with hold_lock(ref, "begin"):
        with pytest.raises(LockTimeout, match=rf"process {os.getpid()} \(begin\)"):
            hold_lock(brief, "commit").__enter__()
        assert make_lock(brief, "look").try_acquire() is not None
    assert make_lock(brief, "look").holder() is None
    assert list(ref.env.storage.list(".hoodie/.locks")) == []


# S3


@pytest.mark.server
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_update_is_lost_on_s3(s3: S3Server, tmp_path: Path, provider: str) -> None:
    uri = s3.uri(f"{uuid.uuid4()}")
    options = {f"{PREFIX}.provider": provider, **s3.options}
    create(uri, options)
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        processes = [stack.enter_context(contender(uri, options)) for _ in range(3)]
        for process in processes:
            process.say("count", counter, 15)
        assert [process.answer() for process in processes] == ["counted 15"] * 3
    assert counter.read_text() == "45"


@pytest.mark.server
def test_lock_of_a_dead_process_is_taken_over_on_s3(s3: S3Server) -> None:
    uri, options = s3.uri(f"{uuid.uuid4()}"), {**SHORT, **s3.options}
    ref = create(uri, options)
    with contender(uri, options) as other:
        assert other.ask("try") == "ok"
        assert other.ask("confirm") == "ok"
        os.kill(other.pid, signal.SIGKILL)
        began = time.monotonic()
        with hold_lock(ref, "commit") as lock:
            assert 1.5 < time.monotonic() - began < 8
            lock.confirm_with_lock()
