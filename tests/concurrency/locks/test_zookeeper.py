"""The lock in a real ZooKeeper: processes that die and stop, a server that does, and Curator."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.lock_process import Contender, contender
from support.servers import or_skip

from hoodoo.concurrency.locks.lock import Lock
from hoodoo.concurrency.locks.table_lock import break_lock, hold_lock, make_lock
from hoodoo.concurrency.locks.zookeeper import (
    ZooKeeperLock,
    drop_connection,
    open_connection,
    resolve_lock_node,
)
from hoodoo.errors import ConfigError, LockLost, LockTimeout
from hoodoo.runtime.env import SystemIds
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef, open_ref
from hoodoo_testing.servers.zookeeper import ZooKeeperServer, zookeeper

pytestmark = pytest.mark.server

PREFIX = "hoodie.write.lock"
SESSION_MS = 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with or_skip(zookeeper(tmp_path_factory.mktemp("zookeeper"))) as running:
        yield running


class Table:
    """A table whose lock is in ZooKeeper."""

    def __init__(self, uri: str, server: ZooKeeperServer, **settings: object) -> None:
        self.uri = uri
        self.options: dict[str, object] = {
            f"{PREFIX}.provider": "zookeeper",
            f"{PREFIX}.zookeeper.url": server.address,
            f"{PREFIX}.zookeeper.base_path": f"/hudi{uri}",
            f"{PREFIX}.zookeeper.session_timeout_ms": SESSION_MS,
            f"{PREFIX}.zookeeper.connection_timeout_ms": 5000,
            **settings,
        }
        schema = pa.schema([("id", pa.int64())])
        self.ref = create_table(uri, schema=schema, record_key="id", options=self.options)

    def open(self, **settings: object) -> TableRef:
        keys = {f"{PREFIX}.{key.replace('__', '.')}": value for key, value in settings.items()}
        return open_ref(self.uri, {**self.options, **keys})

    def lock(self) -> Lock:
        return make_lock(self.ref, "test")

    def queue(self) -> list[str]:
        place = resolve_lock_node(self.ref)
        client = open_connection(self.ref.env, place)
        return client.get_children(place.path) if client.exists(place.path) else []

    def contender(self) -> Any:
        return contender(self.uri, self.options)


@pytest.fixture
def table(server: ZooKeeperServer, tmp_path: Path) -> Table:
    return Table(str(tmp_path / "trips"), server)


def until(is_so: Callable[[], bool], *, within_s: float = 60) -> float:
    """Wait until something is so; for how long."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < within_s, "it never came"
        time.sleep(0.005)
    return time.monotonic() - began


def stop(pid: int) -> None:
    """Stop a process; when this returns, none of its threads moves any more."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(lambda: all(_state(path) == "T" for path in threads.iterdir()))


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


# Alone and together


def test_second_contender_gets_the_lock_after_release(table: Table) -> None:
    first, second = table.lock(), table.lock()
    assert first.try_acquire() is None
    told = second.try_acquire()
    assert told is not None
    me = SystemIds().process()
    assert (told.app, told.host, told.pid, told.phase) == (me.app, me.host, me.pid, "test")
    assert second.holder() == told
    first.confirm_with_lock()
    first.check_last_confirmation()
    first.release()
    until(lambda: second.try_acquire() is None)
    second.confirm_with_lock()
    second.ensure_publish_window()
    for call in (
        first.check_last_confirmation,
        first.confirm_with_lock,
        first.ensure_publish_window,
    ):
        with pytest.raises(LockLost):
            call()
    second.release()
    assert second.holder() is None
    assert table.queue() == []


def test_no_update_is_lost(table: Table, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        processes = [stack.enter_context(table.contender()) for _ in range(4)]
        for process in processes:
            process.say("count", counter, 15)
        assert [process.answer() for process in processes] == ["counted 15"] * 4
    assert counter.read_text() == "60"


def test_threads_of_one_process_share_a_connection(
    server: ZooKeeperServer, table: Table, tmp_path: Path
) -> None:
    other = Table(str(tmp_path / "other"), server)
    numbers, counts = threading.Lock(), {"inside": 0, "most": 0, "turns": 0}

    def work(uri_of: Table) -> None:
        for _ in range(5):
            with hold_lock(uri_of.open(), "work"):
                with numbers:
                    counts["inside"] += uri_of is table
                    counts["most"] = max(counts["most"], counts["inside"])
                time.sleep(0.001)
                with numbers:
                    counts["inside"] -= uri_of is table
                    counts["turns"] += 1

    before = connections(server)
    threads = [threading.Thread(target=work, args=(each,)) for each in [table, other] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counts["most"], counts["turns"]) == (1, 40)
    assert before == connections(server) == 1


def connections(server: ZooKeeperServer) -> int:
    """How many clients the server has, without the one that asks."""
    return len(re.findall(r"^ /", server.ask("cons"), re.MULTILINE)) - 1


def test_lock_is_given_in_order_of_arrival(table: Table, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        processes: list[Contender] = []
        lock = table.lock()
        assert lock.try_acquire() is None
        for number in range(5):
            process = stack.enter_context(table.contender())
            process.say("append", log, number)
            until(lambda expected=number + 2: len(table.queue()) == expected)
            processes.append(process)
        lock.release()
        assert [process.answer() for process in processes] == ["appended"] * 5
    assert log.read_text().split() == list("01234")


def test_the_timeout_names_the_holder_and_leaves_the_queue(table: Table) -> None:
    with table.contender() as other:
        assert other.ask("try") == "ok"
        with (
            pytest.raises(LockTimeout) as raised,
            hold_lock(table.open(wait_time_ms=300), "commit"),
        ):
            pass
        for part in (f"process {other.pid} (test)", "lock_process.py on ", "hoodoo lock status"):
            assert part in str(raised.value)
        assert len(table.queue()) == 1


# Those who die, and those who only seem to


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_lock_of_a_silent_process_is_taken_over(table: Table, how: signal.Signals) -> None:
    with table.contender() as other:
        assert other.ask("try") == "ok"
        assert other.ask("confirm") == "ok"
        lock = table.lock()
        assert lock.try_acquire() is not None
        os.kill(other.pid, how)
        waited = until(lambda: lock.try_acquire() is None)
        assert SESSION_MS / 1000 * 0.6 < waited < SESSION_MS / 1000 * 3
        if how == signal.SIGSTOP:
            os.kill(other.pid, signal.SIGCONT)
            # It may not know yet that its session is gone; its own clock does.
            assert other.ask("check").startswith("LockLost")
            assert other.ask("confirm").startswith("LockLost")
            assert other.ask("release") == "ok"
            assert other.ask("check").startswith("LockLost")
        lock.confirm_with_lock()
        lock.check_last_confirmation()
        lock.release()


def test_holder_that_paused_must_confirm_before_it_publishes(table: Table) -> None:
    """On a busy machine the connection, and even the session, may be gone after the pause."""
    with table.contender() as other:
        assert other.ask("try") == "ok"
        os.kill(other.pid, signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 * 0.4)
        os.kill(other.pid, signal.SIGCONT)
        assert other.ask("check").startswith("LockLost")
        until(lambda: other.ask("confirm") == "ok" or "expired" in other.ask("confirm"))


def test_a_waiter_that_lost_its_session_queues_again(table: Table, tmp_path: Path) -> None:
    log = tmp_path / "log"
    lock = table.lock()
    assert lock.try_acquire() is None
    with table.contender() as first, table.contender() as second:
        first.say("append", log, "first")
        until(lambda: len(table.queue()) == 2)
        os.kill(first.pid, signal.SIGSTOP)
        until(lambda: len(table.queue()) == 1)
        second.say("append", log, "second")
        until(lambda: len(table.queue()) == 2)
        os.kill(first.pid, signal.SIGCONT)
        until(lambda: len(table.queue()) == 3)
        lock.release()
        assert (first.answer(), second.answer()) == ("appended", "appended")
    assert log.read_text().split() == ["second", "first"]


def test_lock_is_lost_at_once_in_a_new_session(table: Table) -> None:
    ref = table.open(zookeeper__session_timeout_ms=20_000)
    lock = make_lock(ref, "test")
    assert lock.try_acquire() is None
    open_connection(ref.env, resolve_lock_node(ref)).restart()
    for call in (lock.check_last_confirmation, lock.confirm_with_lock):
        with pytest.raises(LockLost, match=r"session expired|not held"):
            call()
    lock.release()
    drop_connection(ref.env, resolve_lock_node(ref))


@pytest.mark.parametrize("call", ["confirm_with_lock", "ensure_publish_window"])
def test_lock_is_lost_when_its_node_is_deleted(table: Table, call: str) -> None:
    lock = table.lock()
    assert lock.try_acquire() is None
    place = resolve_lock_node(table.ref)
    client = open_connection(table.ref.env, place)
    client.delete(f"{place.path}/{table.queue()[0]}")
    with pytest.raises(LockLost, match="gone"):
        getattr(lock, call)()
    with pytest.raises(LockLost):
        lock.check_last_confirmation()
    lock.release()


def test_break_waits_until_holder_may_not_publish(table: Table) -> None:
    with table.contender() as other:
        assert other.ask("try") == "ok"
        waiting = table.lock()
        assert waiting.try_acquire() is not None
        began = time.monotonic()
        gone = break_lock(table.ref)
        # Nobody was let in as long as the holder could still publish.
        assert time.monotonic() - began >= 2 * SESSION_MS / 4 / 1000
        assert gone is not None
        assert gone.pid == other.pid
        assert other.ask("confirm").startswith("LockLost")
        until(lambda: waiting.try_acquire() is None)
        waiting.release()
    assert break_lock(table.ref) is None


def test_a_marked_holder_may_not_publish(table: Table) -> None:
    lock = table.lock()
    assert lock.try_acquire() is None
    place = resolve_lock_node(table.ref)
    client = open_connection(table.ref.env, place)
    node = f"{place.path}/{table.queue()[0]}"
    client.set(node, client.get(node)[0])
    with pytest.raises(LockLost, match="taken away"):
        lock.confirm_with_lock()
    lock.release()


# A server that dies, and one that does not answer


def test_a_server_that_comes_back_still_has_the_lock_or_says_that_it_is_lost(
    tmp_path: Path,
) -> None:
    """Sessions outlive a restart, but for those who ask while the server is still starting."""
    with zookeeper(tmp_path / "server") as server:
        long = {f"{PREFIX}.zookeeper.session_timeout_ms": 20_000}
        table = Table(str(tmp_path / "trips"), server, **long)
        lock = table.lock()
        assert lock.try_acquire() is None
        server.kill()
        until(lambda: is_lost(lock))
        server.start()
        until(lambda: is_confirmed(lock) or is_in_new_session(lock))
        with table.contender() as other:
            if is_confirmed(lock):
                lock.check_last_confirmation()
                assert "Holder" in other.ask("try")
            else:
                until(lambda: other.ask("try") == "ok")
                assert is_lost(lock)
            assert other.ask("release") == "ok"
        lock.release()
        until(lambda: table.queue() == [])
        drop_connection(table.ref.env, resolve_lock_node(table.ref))


def is_in_new_session(lock: Lock) -> bool:
    assert isinstance(lock, ZooKeeperLock)
    return lock._live_session() not in (None, lock._session)


def is_lost(lock: Lock) -> bool:
    try:
        lock.check_last_confirmation()
    except LockLost as error:
        return "no connection" in str(error)
    return False


def is_confirmed(lock: Lock) -> bool:
    try:
        lock.confirm_with_lock()
    except LockLost:
        return False
    return True


def test_node_made_without_answer_is_found_or_ends_with_its_session(tmp_path: Path) -> None:
    """A node whose making got no answer is found again, or goes with its session."""
    with zookeeper(tmp_path / "server") as server:
        patient = {
            f"{PREFIX}.zookeeper.session_timeout_ms": 6000,
            f"{PREFIX}.zookeeper.connection_timeout_ms": 500,
        }
        table = Table(str(tmp_path / "trips"), server, **patient)
        with hold_lock(table.ref, "first"):  # makes the path
            pass

        lock = table.lock()
        stop(server.pid)
        told = lock.try_acquire()
        assert told is not None
        assert "does not answer" in told.owner
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: lock.try_acquire() is None)
        assert len(table.queue()) == 1
        lock.release()

        lock = table.lock()
        stop(server.pid)
        assert lock.try_acquire() is not None
        lock.release()
        os.kill(server.pid, signal.SIGCONT)
        until(lambda: table.queue() == [])
        drop_connection(table.ref.env, resolve_lock_node(table.ref))


def test_lock_times_out_without_a_server(tmp_path: Path, server: ZooKeeperServer) -> None:
    nowhere = {
        f"{PREFIX}.zookeeper.url": "127.0.0.1:1",
        f"{PREFIX}.zookeeper.connection_timeout_ms": 200,
    }
    table = Table(str(tmp_path / "trips"), server, **nowhere)
    with (
        pytest.raises(LockTimeout, match=r"127\.0\.0\.1:1 gave no answer"),
        hold_lock(table.ref, "x"),
    ):
        pass


# Curator, which Apache Hudi uses


@pytest.fixture(scope="module")
def jvm(server: ZooKeeperServer) -> Iterator[Any]:
    from importlib.util import find_spec

    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    port = launch_gateway(classpath=f"{jars}/*", die_on_exit=True, javaopts=["-Xmx128m"])
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway.jvm
    gateway.shutdown()


def test_curator_and_hoodoo_exclude_each_other(
    jvm: Any, server: ZooKeeperServer, table: Table
) -> None:
    retry = jvm.org.apache.curator.retry.RetryOneTime(100)
    curator = jvm.org.apache.curator.framework.CuratorFrameworkFactory.newClient(
        server.address, retry
    )
    curator.start()
    place = resolve_lock_node(table.ref)
    theirs = jvm.org.apache.curator.framework.recipes.locks.InterProcessMutex(curator, place.path)
    ms = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    for _ in range(2):
        ours = table.lock()
        assert theirs.acquire(5000, ms)
        assert ours.try_acquire() is not None
        theirs.release()
        until(lambda lock=ours: lock.try_acquire() is None)
        ours.confirm_with_lock()
        assert not theirs.acquire(100, ms)
        ours.release()
    # A queue of both kinds: Curator stands behind one of us, and before another.
    ours, later = table.lock(), table.lock()
    assert ours.try_acquire() is None
    acquired: list[bool] = []
    thread = threading.Thread(target=lambda: acquired.append(theirs.acquire(20_000, ms)))
    thread.start()
    until(lambda: len(table.queue()) == 2)
    assert later.try_acquire() is not None
    ours.release()
    thread.join()
    assert acquired == [True]
    assert later.try_acquire() is not None
    curator.close()
    until(lambda: later.try_acquire() is None)
    later.release()


def test_the_node_of_apache_hudi_names_its_application(table: Table) -> None:
    place = resolve_lock_node(table.ref)
    client = open_connection(table.ref.env, place)
    client.create(f"{place.path}/_c_x-lock-0000000000", b"application_id=app-7", makepath=True)
    told = table.lock().holder()
    assert told is not None
    assert told.app == "app-7"


# Settings


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"base_path": "/a", "lock_key": "b"}, "/a/b"),
        ({"base_path": "a/", "lock_key": "/b/"}, "/a/b"),
        ({"base_path": "/a", "lock_key": ""}, "/a/trips"),
    ],
)
def test_lock_path_by_settings(table: Table, settings: dict[str, str], path: str) -> None:
    given = {f"zookeeper__{key}": value for key, value in settings.items()}
    assert resolve_lock_node(table.open(**given)).path == path


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("a", "a:2181"),
        ("a, b:99 ,c", "a:2181,b:99,c:2181"),
        ("a:1,b/root", "a:1,b:2181/root"),
    ],
)
def test_server_list_gets_the_default_port(table: Table, url: str, hosts: str) -> None:
    assert resolve_lock_node(table.open(zookeeper__url=url)).hosts == hosts


def test_implicit_base_path_is_a_hash_of_the_table_path(table: Table) -> None:
    """Apache Hudi hashes the table's path, and needs no setting for it."""
    provider = "org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider"
    place = resolve_lock_node(table.open(provider=provider))
    assert re.fullmatch(r"/tmp/[0-9A-F]{16}/lock_key", place.path)


@pytest.mark.parametrize("key", ["zookeeper__url", "zookeeper__base_path"])
def test_missing_setting_is_a_config_error(table: Table, key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace("__", ".")):
        make_lock(table.open(**{key: ""}), "x")


def test_missing_kazoo_package_is_a_config_error(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kazoo.client", None)
    ref = table.open(zookeeper__url="127.0.0.1:2")
    with pytest.raises(ConfigError, match=r"pip install hoodoo\[zookeeper\]"), hold_lock(ref, "x"):
        pass
