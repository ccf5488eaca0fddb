"""The lock of a table, by its settings; and how one waits for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha1

from hoodoo.concurrency.locks.in_process import InProcessLock
from hoodoo.concurrency.locks.lease import LeaseLock, LeaseSettings
from hoodoo.concurrency.locks.lock import Holder, Lock, Owner
from hoodoo.concurrency.locks.zookeeper import ZooKeeperLock, resolve_lock_node
from hoodoo.config.concurrency import (
    FOREIGN_LOCK_EXPIRES_MIN,
    LEASE_RENEW_S,
    LEASE_VALIDITY_S,
    LOCK_DIRECTORY,
    LOCK_POLL_MS,
    LOCK_PROVIDER,
    LOCK_WAIT_MS,
    LockProvider,
)
from hoodoo.errors import ConfigError, HoodooError, LockTimeout
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.concurrency")

_FREE_LOOK_S = 0.004
_SHORTEST_PART = 8
_RENEWALS_PER_LEASE = 3


def make_lock(ref: TableRef, purpose: str, group: FileGroupId | None = None) -> Lock:
    """The lock of the table, or of one of its file groups, for one acquisition.

    `purpose` tells others what it is held for.
    """
    match ref.config.get(LOCK_PROVIDER):
        case LockProvider.STORAGE:
            terms = file_group_lock_settings(ref, group) if group else lease_terms(ref)
            return LeaseLock(ref.env, terms, purpose)
        case LockProvider.FILESYSTEM:
            terms = file_group_lock_settings(ref, group) if group else filesystem_lock_settings(ref)
            return LeaseLock(ref.env, terms, purpose)
        case LockProvider.ZOOKEEPER | LockProvider.ZOOKEEPER_IMPLICIT:
            return ZooKeeperLock(ref.env, resolve_lock_node(ref, group), purpose)
        case LockProvider.IN_PROCESS:
            return InProcessLock(ref.env, purpose, name=str(group or ""))


def describe_lock_location(ref: TableRef) -> str:
    """Where the table's lock is, for people."""
    match ref.config.get(LOCK_PROVIDER):
        case LockProvider.STORAGE:
            return lease_terms(ref).path
        case LockProvider.FILESYSTEM:
            return filesystem_lock_settings(ref).path
        case LockProvider.ZOOKEEPER | LockProvider.ZOOKEEPER_IMPLICIT:
            place = resolve_lock_node(ref)
            return f"{place.path} at {place.hosts}"
        case LockProvider.IN_PROCESS:
            return "memory of each process; only this one's is seen"


def lease_terms(ref: TableRef) -> LeaseSettings:
    """The storage lease of a table."""
    validity_s, renew_s = ref.config.get(LEASE_VALIDITY_S), ref.config.get(LEASE_RENEW_S)
    if validity_s < _RENEWALS_PER_LEASE * renew_s:
        raise ConfigError(
            key=LEASE_VALIDITY_S.name,
            value=validity_s,
            reason=f"must be at least {_RENEWALS_PER_LEASE} times {LEASE_RENEW_S.name} ({renew_s})",
        )
    return LeaseSettings(paths.LOCK, validity_s * 1000, renew_s * 1000)


def filesystem_lock_settings(ref: TableRef) -> LeaseSettings:
    """The filesystem lock of a table."""
    lease = lease_terms(ref)
    return LeaseSettings(
        paths.join(_find_lock_directory(ref), "lock"),
        lease.validity_ms,
        lease.renew_ms,
        is_deleted=True,
        foreign_ms=ref.config.get(FOREIGN_LOCK_EXPIRES_MIN) * 60_000,
    )


def file_group_lock_settings(ref: TableRef, group: FileGroupId) -> LeaseSettings:
    """The lease of one file group; its partition and file id may be too long for a name."""
    lease = lease_terms(ref)
    name = sha1(str(group).encode()).hexdigest()
    return LeaseSettings(
        f"{paths.GROUP_LOCKS}/{name}", lease.validity_ms, lease.renew_ms, is_deleted=True
    )


@contextmanager
def hold_lock(ref: TableRef, purpose: str, group: FileGroupId | None = None) -> Iterator[Lock]:
    """The lock of the table, or of a file group, held; waits for it.

    Raises `LockTimeout` when that takes too long.
    Order: the line of this process; the lock; the caller's work; both given back.
    Crash: a lease or a session ends by itself.
    """
    clock, wait_s = ref.env.clock, ref.config.get(LOCK_WAIT_MS) / 1000
    lock = make_lock(ref, purpose, group)
    began = clock.monotonic()
    line = clock.line(f"lock {ref.uri}" if group is None else f"lock {ref.uri} {group}")
    if not line.enter(wait_s):
        raise _make_timeout(ref, lock.holder(), purpose)
    try:
        try:
            _acquire(ref, lock, purpose, began)
            yield lock
        finally:
            _release(ref, lock)
    finally:
        line.leave()


def break_lock(ref: TableRef) -> Holder | None:
    """Free the table's lock, whoever holds it; tells who held it."""
    former_holder = make_lock(ref, "break").take_away()
    if former_holder is not None:
        log.warning("lock_broken table=%s owner=%s", ref.uri, former_holder.owner)
    return former_holder


def _acquire(ref: TableRef, lock: Lock, purpose: str, began: float) -> None:
    clock, wait_s = ref.env.clock, ref.config.get(LOCK_WAIT_MS) / 1000
    while True:
        look_began = clock.monotonic()
        other = lock.try_acquire()
        if other is None:
            return
        now = clock.monotonic()
        left_s = wait_s - (now - began)
        if left_s <= 0:
            raise _make_timeout(ref, lock.holder() or other, purpose)
        pause_s = _pause_s(ref, waited_s=now - began, look_s=now - look_began)
        if lock.keeps_queue:
            pause_s = _FREE_LOOK_S
        clock.sleep(min(pause_s, left_s))


def _pause_s(ref: TableRef, *, waited_s: float, look_s: float) -> float:
    """Shorter the longer one has waited, so that the oldest tries most often and gets in first.

    Never shorter than a look takes, so that many who wait do not keep a slow store busy.
    """
    longest_s = ref.config.get(LOCK_POLL_MS) / 1000
    pause_s = max(longest_s / (1 + waited_s / longest_s), look_s, longest_s / _SHORTEST_PART)
    return pause_s * (0.5 + ref.env.ids.jitter())


def _release(ref: TableRef, lock: Lock) -> None:
    """What the work brought, or how it failed, counts more than a lock that ends by itself."""
    try:
        lock.release()
    except HoodooError as error:
        log.warning("lock_not_released table=%s reason=%s", ref.uri, error)


def _find_lock_directory(ref: TableRef) -> str:
    """Where the filesystem lock lies, relative to the table, however it was given."""
    setting = ref.config.get(LOCK_DIRECTORY)
    inside = setting.rstrip("/")
    for base in (ref.uri, ref.uri.removeprefix("file://")):
        if inside == base or inside.startswith(f"{base}/"):
            inside = inside[len(base) :].strip("/")
            break
    parts = inside.split("/")
    if inside.startswith("/") or ":" in inside or ".." in parts or "." in parts:
        reason = f"the lock must lie below the table, {ref.uri}"
        raise ConfigError(key=LOCK_DIRECTORY.name, value=setting, reason=reason)
    return inside or paths.META


def _make_timeout(ref: TableRef, holder: Holder | None, purpose: str) -> LockTimeout:
    waited_s = ref.config.get(LOCK_WAIT_MS) / 1000
    who = describe(holder, now_ms=ref.env.clock.now_ms()) if holder else "nobody any more"
    return LockTimeout(
        f"no lock on {ref.uri} for {purpose} within {waited_s:g} s: held by {who}; "
        f"see `hoodoo lock status {ref.uri}`"
    )


def describe(holder: Holder, *, now_ms: int) -> str:
    """Who holds a lock, in words: application, host, process, phase, since when, how long yet."""
    owner = Owner.parse(holder.owner)
    if owner is None:
        words = holder.app or holder.owner
    else:
        since = datetime.fromtimestamp(owner.since_ms / 1000, UTC).isoformat(timespec="seconds")
        words = f"{owner.app} on {owner.host}, process {owner.pid} ({owner.phase}) since {since}"
    if holder.expires_in_ms is None:
        return words
    left_s = holder.expires_in_ms / 1000
    if left_s > 0:
        return f"{words}, its lease ends in {left_s:.1f} s unless renewed"
    return f"{words}, its lease ended {-left_s:.1f} s ago"
