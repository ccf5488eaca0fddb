"""The table's lock in ZooKeeper: the recipe of Curator's mutex, so that both keep each other out.

Each contender makes an ephemeral sequential node `_c_<uuid>-lock-<number>` below the lock's path;
whose number is lowest holds the lock, and every other one watches the node before its own. So
waiting is a queue, which a contender keeps its place in from one try to the next.

The node lives as long as the session of the process that made it. The holder may publish only
within the *publish budget* after it sent the last request that showed its node to be there, and
only while it is connected in the same session. The budget is a quarter of the session's length,
at most 5 s; the server hears of us later than we send, and ends a session only after a silence of
its whole length: long after the budget is over. All tables of a process share one connection.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hoodoo.concurrency.locks.lock import Holder, Owner, parse_holder
from hoodoo.config.concurrency import (
    LOCK_PROVIDER,
    ZOOKEEPER_BASE_PATH,
    ZOOKEEPER_CONNECTION_MS,
    ZOOKEEPER_LOCK_KEY,
    ZOOKEEPER_PORT,
    ZOOKEEPER_SESSION_MS,
    ZOOKEEPER_URL,
    LockProvider,
)
from hoodoo.errors import ConfigError, LockLost, LockTimeout
from hoodoo.format.xxhash import xxh64
from hoodoo.model.files import FileGroupId
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.concurrency")

_PUBLISH_MOST_MS = 5_000
_TRIES = 4
_RETRY_S = 0.05
_MARK = "lock-"  # Curator sorts by what follows it


@dataclass(frozen=True, slots=True)
class LockNode:
    """Where a table's lock is: servers, and the node below which contenders queue."""

    hosts: str
    path: str
    session_ms: int
    connection_ms: int


def publish_budget_ms(session_ms: int) -> int:
    """How long after a confirmed look the holder with such a session may publish."""
    return min(session_ms // 4, _PUBLISH_MOST_MS)


def resolve_lock_node(ref: TableRef, group: FileGroupId | None = None) -> LockNode:
    """The place of the lock of a table, or of a file group; Apache Hudi has the same."""
    config = ref.config
    url = config.get(ZOOKEEPER_URL)
    if url is None:
        reason = "the hosts of ZooKeeper are needed for a zookeeper lock"
        raise ConfigError(key=ZOOKEEPER_URL.name, value=url, reason=reason)
    if config.get(LOCK_PROVIDER) is LockProvider.ZOOKEEPER_IMPLICIT:
        path = f"/tmp/{xxh64(ref.uri.encode()):016X}/{group or 'lock_key'}"
    else:
        base = config.get(ZOOKEEPER_BASE_PATH)
        if base is None:
            reason = "where lock nodes live; or use the provider zookeeper_implicit_base_path"
            raise ConfigError(key=ZOOKEEPER_BASE_PATH.name, value=base, reason=reason)
        path = f"{base}/{group or config.get(ZOOKEEPER_LOCK_KEY) or ref.properties.name}"
    return LockNode(
        _add_ports(url, config.get(ZOOKEEPER_PORT)),
        "/" + "/".join(part for part in path.split("/") if part),
        config.get(ZOOKEEPER_SESSION_MS),
        config.get(ZOOKEEPER_CONNECTION_MS),
    )


class ZooKeeperLock:
    """One contender's place in the queue, for one acquisition."""

    keeps_queue = True

    def __init__(self, env: Env, place: LockNode, phase: str) -> None:
        self._env = env
        self._place = place
        owner = Owner.new(env, phase, lease_ms=place.session_ms)
        self._data = str(owner).encode()
        self._prefix = f"_c_{owner.id}-{_MARK}"
        self._budget_s = publish_budget_ms(place.session_ms) / 1000
        self._session: int | None = None  # in which our node was made
        self._node: str | None = None
        self._is_unsure = False  # whether there may be a node whose name we were not told
        self._wait: _Wait | None = None
        self._confirmed: float | None = None  # None: not held

    @cached_property
    def _client(self) -> Any:
        return open_connection(self._env, self._place)

    @cached_property
    def _client_errors(self) -> tuple[type[Exception], ...]:
        from kazoo.exceptions import KazooException

        return KazooException, self._client.handler.timeout_exception

    def try_acquire(self) -> Holder | None:
        """Order: node made, the first time; children listed; the node before ours watched.

        Crash: the node goes with the session.
        """
        assert self._confirmed is None
        wait = self._wait
        if wait and not wait.is_over and self._live_session() == self._session:
            return wait.holder
        self._wait = None
        if self._live_session() is None:
            return Holder("nobody knows whom: there is no connection to ZooKeeper")
        try:
            for _ in range(_TRIES):
                holder = self._join_queue()
                if holder is not None or self._confirmed is not None:
                    return holder
        except self._client_errors as error:
            return Holder(f"nobody knows whom: ZooKeeper does not answer ({_describe(error)})")
        return Holder("others who were faster")

    def confirm_with_lock(self) -> None:
        sent_at = self._env.clock.monotonic()
        self._check_session()
        try:
            self._client.sync_async(self._place.path)  # what follows is not older than this
            stat = self._ask(self._client.exists_async(self._node))
        except self._client_errors as error:
            raise self._lost_error(f"ZooKeeper does not confirm it: {_describe(error)}") from error
        # A version other than the first is how a breaker tells us.
        if stat is None or stat.ephemeralOwner != self._session or stat.version != 0:
            self._confirmed = None
            raise self._lost_error("it was taken away" if stat else "its node is gone")
        self._confirmed = sent_at
        self.check_last_confirmation()

    def check_last_confirmation(self) -> None:
        confirmed_at = self._check_session()
        if self._env.clock.monotonic() - confirmed_at > self._budget_s:
            raise self._lost_error("it was not confirmed in time")

    def ensure_publish_window(self) -> None:
        # nothing confirms it beside the work, and a look at one node is cheap
        self.confirm_with_lock()

    def budget_s(self) -> float:
        return max(0.0, (self._confirmed or 0.0) + self._budget_s - self._env.clock.monotonic())

    def is_unbroken(self) -> bool:
        with suppress(LockLost):
            self.confirm_with_lock()
            return True
        return False

    def release(self) -> None:
        """Order: our node deleted.

        Crash: the node goes with the session.
        """
        self._confirmed = self._wait = None
        if self._node is None and not self._is_unsure:
            return
        clock = self._env.clock
        deadline = clock.monotonic() + self._place.connection_ms / 1000
        while self._live_session() in (None, self._session):  # else it went with its session
            try:
                self._delete_own()
                break
            except self._client_errors as error:
                if clock.monotonic() > deadline:
                    # A node that stays would keep everybody out as long as this process lives.
                    log.warning("zookeeper_session_dropped reason=%s", _describe(error))
                    drop_connection(self._env, self._place)
                    break
            clock.sleep(_RETRY_S)
        self._node, self._is_unsure = None, False

    def holder(self) -> Holder | None:
        try:
            queue = self._list_queue()
            return self._read_holder(queue[0]) if queue else None
        except self._client_errors as error:
            raise LockTimeout(f"ZooKeeper does not answer: {_describe(error)}") from error

    def take_away(self) -> Holder | None:
        """Order: the holder's node marked; wait until its budget is over; node deleted.

        Crash: the holder is marked: it fails at its next confirmation.
        """
        from kazoo.exceptions import NoNodeError

        try:
            queue = self._list_queue()
            if not queue:
                return None
            first, holder = self._node_path(queue[0]), self._read_holder(queue[0])
            data, _ = self._ask(self._client.get_async(first))
            self._ask(self._client.set_async(first, data))
            owner = Owner.parse(data.decode(errors="replace"))
            if owner is not None and owner.lease_ms is not None:
                self._env.clock.sleep(2 * publish_budget_ms(owner.lease_ms) / 1000)
            with suppress(NoNodeError):
                self._ask(self._client.delete_async(first))
        except NoNodeError:
            return None  # given up meanwhile
        except self._client_errors as error:
            raise LockTimeout(f"ZooKeeper does not answer: {_describe(error)}") from error
        return holder

    def _join_queue(self) -> Holder | None:
        """Stand in the queue, and see who is first; None when it must be looked at again."""
        sent_at = self._env.clock.monotonic()
        session = self._live_session()
        if self._node is None or session != self._session:
            self._session, self._node = session, None
            self._node = self._find_own_node() if self._is_unsure else None
            self._node = self._node or self._create_node()
            self._is_unsure = False
        queue = self._list_queue()
        if session is None or self._live_session() != session:
            return None
        name = self._node.rpartition("/")[2]
        if name not in queue:
            self._node = None
            return None
        at = queue.index(name)
        if at == 0:
            self._confirmed = sent_at
            return None
        wait = _Wait(self._read_holder(queue[0]))
        ahead = self._node_path(queue[at - 1])
        if self._ask(self._client.exists_async(ahead, watch=wait.wake)) is None:
            return None
        self._wait = wait
        return wait.holder

    def _create_node(self) -> str:
        from kazoo.exceptions import NoNodeError

        self._is_unsure = True

        def make() -> str:
            path = self._node_path(self._prefix)
            request = self._client.create_async(path, self._data, ephemeral=True, sequence=True)
            return str(self._ask(request))

        try:
            return make()
        except NoNodeError:
            self._ask(self._client.ensure_path_async(self._place.path))
            return make()

    def _find_own_node(self) -> str | None:
        """Our node, if a request to make one that got no answer had made it."""
        mine = (name for name in self._list_queue() if name.startswith(self._prefix))
        return next(map(self._node_path, mine), None)

    def _delete_own(self) -> None:
        from kazoo.exceptions import NoNodeError

        node = self._node or self._find_own_node()
        if node is not None:
            with suppress(NoNodeError):
                self._ask(self._client.delete_async(node))

    def _list_queue(self) -> list[str]:
        """Those who hold or want the lock, in the order of the queue."""
        from kazoo.exceptions import NoNodeError

        try:
            names = self._ask(self._client.get_children_async(self._place.path))
        except NoNodeError:
            return []
        return sorted(names, key=lambda name: name.rpartition(_MARK)[2])

    def _read_holder(self, name: str) -> Holder:
        """What a node says of its maker."""
        from kazoo.exceptions import NoNodeError

        try:
            data, _ = self._ask(self._client.get_async(self._node_path(name)))
        except NoNodeError:
            return Holder("someone who has just left")
        text = data.decode(errors="replace")
        holder = parse_holder(text)
        # Apache Hudi writes `application_id=...`; older releases let Curator write an address.
        app = text.removeprefix("application_id=")
        return Holder(holder.owner, app=app) if app != text else holder

    def _node_path(self, name: str) -> str:
        return f"{self._place.path}/{name}"

    def _ask(self, request: Any) -> Any:
        return request.get(timeout=self._place.connection_ms / 1000)

    def _live_session(self) -> int | None:
        """The session that we are connected in now."""
        identity = self._client.client_id
        return identity[0] if identity and self._client.connected else None

    def _check_session(self) -> float:
        if self._confirmed is None:
            raise self._lost_error("it is not held")
        session = self._live_session()
        if session is None:
            raise self._lost_error("no connection to ZooKeeper")
        if session != self._session:
            self._confirmed = None
            raise self._lost_error("its ZooKeeper session expired")
        return self._confirmed

    def _lost_error(self, why: str) -> LockLost:
        place = self._place
        return LockLost(f"the lock {place.path} at {place.hosts} is lost: {why}")


class _Wait:
    """The holder we were told of, until the node before ours changes or the connection breaks."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.is_over = False

    def wake(self, event: object) -> None:
        self.is_over = True


# One for each process (a fork is another one), list of servers, and length of session.
_connections: dict[tuple[int, str, int], Any] = {}


def open_connection(env: Env, place: LockNode) -> Any:
    """The process's connection to these servers. Raises `LockTimeout`, `ConfigError`."""
    key = (env.ids.process().pid, place.hosts, place.session_ms)
    wait_s = place.connection_ms / 1000
    line = env.clock.line(f"zookeeper {place.hosts}")
    if not line.enter(2 * wait_s):
        raise LockTimeout(f"ZooKeeper at {place.hosts} does not answer")
    try:
        if key not in _connections:
            _connections[key] = _connect(place, wait_s)
        return _connections[key]
    finally:
        line.leave()


def drop_connection(env: Env, place: LockNode) -> None:
    """End the session, and with it all nodes that it made."""
    key = (env.ids.process().pid, place.hosts, place.session_ms)
    client = _connections.pop(key, None)
    if client is not None:
        # Beside us: it waits for a connection that may be gone.
        client.handler.spawn(_close, client)


def _connect(place: LockNode, wait_s: float) -> Any:
    try:
        from kazoo.client import KazooClient
    except ImportError:
        reason = "ZooKeeper needs the kazoo package: pip install hoodoo[zookeeper]"
        value = LockProvider.ZOOKEEPER.value
        raise ConfigError(key=LOCK_PROVIDER.name, value=value, reason=reason) from None
    client = KazooClient(hosts=place.hosts, timeout=place.session_ms / 1000)
    try:
        client.start(timeout=wait_s)
    except client.handler.timeout_exception:
        raise LockTimeout(f"ZooKeeper at {place.hosts} gave no answer in {wait_s:g} s") from None
    return client


def _close(client: Any) -> None:
    try:
        client.stop()
        client.close()
    except Exception as error:  # whatever it is: the session ends without its consent, too
        log.warning("zookeeper_close_failed reason=%s", _describe(error))


def _add_ports(url: str, port: int) -> str:
    """The servers with the port of those that name none; a path after them stays."""
    servers, slash, chroot = url.partition("/")
    names = filter(None, map(str.strip, servers.split(",")))
    return ",".join(name if ":" in name else f"{name}:{port}" for name in names) + slash + chroot


def _describe(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
