"""Locks that are one object on the table's own store: the storage lease and the filesystem lock.

The object holds a lease: an owner (fresh text for each acquisition) and an end. Every move is a
conditional write, so of two who want the same version of the object one wins. While held, the
lease is renewed; each write differs in its bytes, so that each makes a version of its own.

Why two never publish at once
- The holder may publish only within the *publish budget* (a quarter of the lease, at most 10 s)
  after it sent its last write that is known to have landed, by its own monotonic clock.
  `check_last_confirmation` says so without asking; `confirm_with_lock` writes, and so starts the
  budget anew; `ensure_publish_window` writes only when half the budget is over, and so leaves half
  of it to what is sent next.
- A contender takes the lock only by replacing a version that it has itself seen unchanged for
  twice the holder's publish budget, by its own monotonic clock, counted from the answer that
  first showed it. That version landed before the answer, and its budget began before it landed.
  So the budget has been over for as long again, which is left to a request that was under way.
- When to replace at all: the version's end has passed by the contender's wall clock, plus the
  drift that Apache Hudi allows; or the version has not changed for the whole length of the lease
  (which our owners tell), whatever clocks say. Wrong wall clocks thus make a takeover early or
  late, never unsafe: a holder who lives renews within one budget, and one whose lease was taken
  fails its next conditional write.
- A holder that overslept its lease does not renew it, even if nobody took it.

Apache Hudi takes over by the wall clock alone: clocks must agree to half a second with it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from hoodoo.concurrency.locks.lock import Holder, Owner, parse_holder
from hoodoo.errors import (
    FormatError,
    LockLost,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
    add_error_source,
)
from hoodoo.format import json_files as codec
from hoodoo.format.json_files import Lease
from hoodoo.runtime.env import Env, Timer

log = logging.getLogger("hoodoo.concurrency")

DRIFT_MS = 500  # as Apache Hudi
_PUBLISH_MOST_MS = 10_000
_TRIES = 4  # against lost answers and lost races; each loss is another's gain


def publish_budget_ms(validity_ms: int) -> int:
    """How long after a confirmed write the holder of such a lease may publish."""
    return min(validity_ms // 4, _PUBLISH_MOST_MS)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """What a lock object is like: where it is, how long a lease lasts, what its release leaves."""

    path: str
    validity_ms: int
    renew_ms: int
    is_deleted: bool = False
    """Released by deletion (the filesystem lock), not by marking the lease as expired."""
    foreign_ms: int = 0
    """After how long an object that is no lease is taken over; 0 is never."""

    @property
    def publish_ms(self) -> int:
        return publish_budget_ms(self.validity_ms)


@dataclass(frozen=True, slots=True)
class LockVersion:
    """A version of the lock object, and for how long we have seen it unchanged."""

    etag: str
    lease: Lease | None
    """None for a foreign body."""
    text: str
    since: float
    """Our monotonic time when we first knew of this version."""


@dataclass(frozen=True, slots=True)
class _OwnLease:
    etag: str
    sent_at: float
    """Our monotonic time before the write that made this version was sent."""
    lease: Lease


def may_take(version: LockVersion, terms: LeaseSettings, *, now_ms: int, monotonic: float) -> bool:
    """Whether a contender may replace this version of the lock by its own lease."""
    unchanged_ms = (monotonic - version.since) * 1000
    if version.lease is None:
        return 0 < terms.foreign_ms < unchanged_ms
    if version.lease.expired:
        return True
    owner = Owner.parse(version.lease.owner)
    validity_ms = owner.lease_ms if owner else None
    budget_ms = publish_budget_ms(validity_ms or terms.validity_ms)
    has_ended = now_ms > version.lease.valid_until_ms + DRIFT_MS and unchanged_ms > 2 * budget_ms
    is_silent = validity_ms is not None and unchanged_ms > validity_ms + DRIFT_MS
    return has_ended or is_silent


class LeaseLock:
    """One contender's view of a lock object, for one acquisition."""

    keeps_queue = False

    def __init__(self, env: Env, terms: LeaseSettings, phase: str) -> None:
        self._env = env
        self._terms = terms
        self._me = Owner.new(env, phase, lease_ms=terms.validity_ms)
        self._owner = str(self._me)
        # Renewals come from a timer and from `confirm_with_lock`: one at a time.
        self._renewals = env.clock.line(f"renew {terms.path} of {env.storage.uri}")
        self._last_version: LockVersion | None = None
        self._until_ms = 0
        self._is_unsure = False  # whether a write of ours got no answer
        self._own_lease: _OwnLease | None = None
        self._timer: Timer | None = None

    def try_acquire(self) -> Holder | None:
        """Order: read; next time stat, and read if the version is new; create or replace.

        Crash: the lease ends by itself.
        """
        assert self._own_lease is None
        clock = self._env.clock
        version = self._read_lock()
        for _ in range(_TRIES):
            if version is not None and not self._is_ours(version):
                now_ms, monotonic = clock.now_ms(), clock.monotonic()
                if not may_take(version, self._terms, now_ms=now_ms, monotonic=monotonic):
                    return self._make_holder(version)
            if not self._is_unsure:  # else we must know our text again
                self._owner = str(replace(self._me, since_ms=clock.now_ms()))
            if self._write(over=None if version is None else version.etag):
                self._start_renewals()
                return None
            version = self._read_lock()
        return Holder("others who were faster") if version is None else self._make_holder(version)

    def confirm_with_lock(self) -> None:
        if not self._renewals.enter(self._terms.publish_ms / 1000):
            raise self._lost_error("a renewal does not come to an end")
        try:
            self._renew()
        except (StorageError, FormatError) as error:
            raise self._lost_error(f"it could not be renewed: {error}") from error
        finally:
            self._renewals.leave()

    def check_last_confirmation(self) -> None:
        own = self._own_lease
        if own is None:
            raise self._lost_error("it is not held")
        if self._age_ms(own) > self._terms.publish_ms:
            raise self._lost_error("it was not confirmed in time")

    def ensure_publish_window(self) -> None:
        own = self._own_lease
        if own is None or self._age_ms(own) * 2 >= self._terms.publish_ms:
            self.confirm_with_lock()

    def budget_s(self) -> float:
        own = self._own_lease
        return 0.0 if own is None else max(0.0, self._terms.publish_ms - self._age_ms(own)) / 1000

    def is_unbroken(self) -> bool:
        """Others leave a lease alone while its holder may publish; Apache Hudi deletes lock files
        when it gives up waiting for them, so these are looked at.
        """
        if self.budget_s() and not self._terms.is_deleted:
            return True
        version = self._read_lock()
        return version is not None and self._is_ours(version)

    def release(self) -> None:
        """Order: replace by an expired lease; or, for the filesystem lock, delete.

        Crash: the lease ends by itself.
        """
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        try:
            for _ in range(_TRIES):
                if self._own_lease is None and not self._find_own():
                    return
                if self._release_own():
                    return
                self._own_lease = None
        finally:
            self._own_lease = None

    def holder(self) -> Holder | None:
        version = self._read_lock(damaged_is_foreign=True)
        is_free = version is None or (version.lease is not None and version.lease.expired)
        return None if version is None or is_free else self._make_holder(version)

    def take_away(self) -> Holder | None:
        """Order: replace by our own lease; wait until the holder's budget is over; release.

        Crash: our lease ends by itself.
        """
        for _ in range(_TRIES):
            version = self._read_lock(damaged_is_foreign=True)
            if version is None or (version.lease is not None and version.lease.expired):
                return None
            if self._write(over=version.etag):
                owner = Owner.parse(version.lease.owner) if version.lease else None
                if owner is not None and owner.lease_ms is not None:
                    self._start_renewals()
                    self._env.clock.sleep(2 * publish_budget_ms(owner.lease_ms) / 1000)
                self.release()
                return self._make_holder(version)
        raise PreconditionFailed(self._terms.path, "the lock changed hands at every try; try again")

    def _read_lock(self, *, damaged_is_foreign: bool = False) -> LockVersion | None:
        """The object as it is now; a version that we know is only looked at, not read again."""
        storage, path = self._env.storage, self._terms.path
        try:
            if (
                self._last_version is not None
                and self._last_version.etag == storage.stat(path).etag
            ):
                return self._last_version
            version = storage.read_version(path)  # both in one answer: the body is this version's
        except ObjectNotFound:
            self._last_version = None
            return None
        known_since = self._env.clock.monotonic()
        lease = None
        try:
            with add_error_source(path):
                lease = codec.decode_lock_file(version.data)
        except FormatError:
            if not (damaged_is_foreign or self._terms.is_deleted):
                raise
        self._last_version = LockVersion(
            version.etag, lease, version.data.decode(errors="replace"), known_since
        )
        return self._last_version

    def _write(self, *, over: str | None) -> bool:
        """Put our lease over this version, or where there is none; whether it is there now."""
        storage, clock, path = self._env.storage, self._env.clock, self._terms.path
        sent_at = clock.monotonic()
        # Never the same end twice, even if the clock is set back: versions must differ.
        self._until_ms = max(clock.now_ms() + self._terms.validity_ms, self._until_ms + 1)
        lease = Lease(self._owner, self._until_ms)
        data = codec.encode_lock_file(lease)
        was_unsure, self._is_unsure = self._is_unsure, True  # until there is an answer
        try:
            if over is None:
                info = storage.create(path, data)
            else:
                info = storage.replace(path, data, if_match=over)
        except (ObjectExists, PreconditionFailed):
            self._is_unsure = was_unsure
            return False
        except OutcomeUnknown as error:
            log.warning("lease_write_uncertain path=%s reason=%s", path, error)
            version = self._read_lock()
            if version is None or version.lease != lease:
                return False
            etag = version.etag
        else:
            etag, self._is_unsure = info.etag, was_unsure
        self._own_lease = _OwnLease(etag, sent_at, lease)
        self._last_version = LockVersion(
            etag, lease, data.decode(), sent_at
        )  # need not be read back
        return True

    def _renew(self) -> None:
        """Extend a lease that still lasts. Raises `LockLost`."""
        own = self._own_lease
        if own is None:
            raise self._lost_error("it is not held")
        for _ in range(_TRIES):
            if self._age_ms(own) >= self._terms.validity_ms:
                self._own_lease = None
                raise self._lost_error("it ended before it was renewed")
            if self._write(over=own.etag):
                return
            # Others never write our text: if it is still there, it is a write of ours that got
            # no answer at first, and nobody had the lock meanwhile.
            version = self._read_lock()
            if version is None or not self._is_ours(version):
                self._own_lease = None
                raise self._lost_error(
                    f"it was taken away; {self._describe_holder(version)} has it now"
                )
            own = self._own_lease = replace(own, etag=version.etag)
        raise self._lost_error("it could not be renewed: the store does not answer")

    def _start_renewals(self) -> None:
        """Renew the lease from now on, and often enough that nobody can think us dead."""
        every_ms = min(self._terms.renew_ms, self._terms.publish_ms)
        self._timer = self._env.clock.every(every_ms, self._renew_in_background)

    def _renew_in_background(self) -> None:
        if self._own_lease is None or not self._renewals.enter(0):
            return  # lost, or being renewed just now
        try:
            self._renew()
        except LockLost as error:
            log.warning("lease_not_renewed path=%s reason=%s", self._terms.path, error)
        finally:
            self._renewals.leave()

    def _release_own(self) -> bool:
        """Give up what we hold; False when it may still be there."""
        storage, path, own = self._env.storage, self._terms.path, self._own_lease
        assert own is not None
        try:
            if not self._terms.is_deleted:
                over = codec.encode_lock_file(replace(own.lease, expired=True))
                storage.replace(path, over, if_match=own.etag)
                return True
            # A delete has no condition: it is sent only while nobody can have taken the lock, and
            # if it is still there: Apache Hudi removes it when it gives up waiting.
            if self._age_ms(own) > self._terms.publish_ms:
                self._renew()
            if not self.is_unbroken():
                return True
            storage.delete(path)
        except (PreconditionFailed, OutcomeUnknown) as error:
            log.warning("lease_release_uncertain path=%s reason=%s", path, error)
            self._is_unsure = True
            return False
        return True

    def _find_own(self) -> bool:
        """Take hold of a write of ours that got no answer; False if there is none."""
        version = self._read_lock() if self._is_unsure else None
        return version is not None and self._is_ours(version) and self._write(over=version.etag)

    def _is_ours(self, version: LockVersion) -> bool:
        lease = version.lease
        return lease is not None and lease.owner == self._owner and not lease.expired

    def _age_ms(self, own: _OwnLease) -> float:
        return (self._env.clock.monotonic() - own.sent_at) * 1000

    def _make_holder(self, version: LockVersion) -> Holder:
        if version.lease is None:
            return parse_holder(version.text)
        left_ms = version.lease.valid_until_ms + DRIFT_MS - self._env.clock.now_ms()
        return parse_holder(version.lease.owner, expires_in_ms=left_ms)

    def _describe_holder(self, version: LockVersion | None) -> str:
        if version is None or (version.lease is not None and version.lease.expired):
            return "nobody"
        holder = self._make_holder(version)
        is_known_by_name = holder.app is not None
        return (
            f"{holder.app} on {holder.host}, process {holder.pid}"
            if is_known_by_name
            else holder.owner
        )

    def _lost_error(self, why: str) -> LockLost:
        return LockLost(f"the lock {self._terms.path} of {self._env.storage.uri} is lost: {why}")
