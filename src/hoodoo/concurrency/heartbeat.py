"""Heartbeats: how an attempt shows that it lives, and learns that it has lost its instant.

The body names the attempt. A beat replaces the file on condition that it is as this attempt left
it, so an attempt that was taken over, or whose file was removed, notices at its next beat, and
stops for good: others may be undoing its work.

An attempt may be at work in several processes, at once or one after the other (`resume`). They
beat the same file; a beat of one of them is as good as one's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from hoodoo.config.concurrency import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
from hoodoo.env import Env, Timer
from hoodoo.errors import (
    AlreadyExists,
    FormatError,
    HeartbeatLost,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
)
from hoodoo.format import json_object
from hoodoo.model import paths
from hoodoo.model.attempt import RELEASED, HeartbeatBody
from hoodoo.model.instant import InstantTime
from hoodoo.storage.storage import Version
from hoodoo.table.ref import TableRef
from hoodoo.timeline.resolve_unknown import create_once, delete_surely, replace_once
from hoodoo.timeline.txn import Txn, new_time

log = logging.getLogger("hoodoo.concurrency")


class Heartbeat:
    """The heartbeat of one attempt at an instant; it beats beside the work until stopped."""

    def __init__(
        self,
        env: Env,
        instant: InstantTime,
        body: HeartbeatBody,
        *,
        etag: str,
        sent_at: float,
        seen_at: float | None = None,
    ) -> None:
        """`sent_at`: the monotonic time just before the file with this body was written.

        `seen_at`: one at which this was still the newest version; `sent_at` unless known better.
        """
        self._env = env
        self.instant = instant
        self.body = body
        self.phase = body.phase
        self._etag = etag
        self._seen_at = sent_at if seen_at is None else seen_at
        self._confirmed_at = sent_at
        self._lost: str | None = None
        self._timer: Timer | None = None
        self.on_loss: Callable[[HeartbeatLost], None] | None = None
        """Told at once when the instant is lost, by the thread that beats."""

    def start(self) -> None:
        """Beat from now on, at least four times before the silence would count as death."""
        period_ms = min(self.body.interval_ms, self.body.expiry_ms // 4)
        self._timer = self._env.clock.every(period_ms, self.beat)

    def beat(self) -> None:
        """Show once more that this attempt lives; never again once the instant may be lost."""
        if self._lost:
            return
        sent_at = self._env.clock.monotonic()
        if self._silent_ms() >= self.body.expiry_ms:
            self._lose("it was silent for longer than its expiry")
            return
        sent = replace(self.body, seq=self.body.seq + 1, phase=self.phase)
        path = paths.heartbeat(self.instant)
        try:
            info = self._env.storage.replace(path, json_object.encode(sent), if_match=self._etag)
        except (PreconditionFailed, OutcomeUnknown):
            self._read_back(sent, sent_at)
        except StorageError as error:
            log.warning("beat_failed instant=%s error=%s", self.instant, error)
        else:
            self.body, self._etag = sent, info.etag
            self._confirmed_at = self._seen_at = sent_at

    def check(self) -> None:
        """Fail unless this attempt surely still counts as alive. Raises `HeartbeatLost`.

        Half the expiry is kept in reserve: what follows must be done before others may act.
        """
        if self._lost is None and self._silent_ms() * 2 >= self.body.expiry_ms:
            self._lost = f"its last beat was {self._silent_ms() / 1000:.0f} s ago"
        if self._lost:
            raise HeartbeatLost(f"instant {self.instant} is lost: {self._lost}")

    def stop(self) -> None:
        """Beat no more, and leave the file to age: for attempts that may not have ended."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def end(self) -> None:
        """Beat no more and take the file away: for attempts of which nothing runs any more."""
        self.stop()
        try:
            self.check()  # an attempt that was overtaken leaves the file to the next one
            delete_surely(self._env, paths.heartbeat(self.instant))
        except (HeartbeatLost, StorageError) as error:
            log.warning("heartbeat_left instant=%s error=%s", self.instant, error)

    def release(self) -> None:
        """Say that nothing of this attempt runs any more, and keep its epoch for the next one.

        For attempts at a plan, which others may execute again at once.
        """
        self.phase = RELEASED
        self.beat()
        self.stop()

    def _silent_ms(self) -> float:
        return (self._env.clock.monotonic() - self._confirmed_at) * 1000

    def _read_back(self, sent: HeartbeatBody, sent_at: float) -> None:
        """A beat failed, or its answer was lost: whose is the file, and which beat is in it?"""
        looked_at = self._env.clock.monotonic()
        try:
            body, version = read_heartbeat_version(self._env, self.instant)
        except NotFound:
            self._lose("its heartbeat is gone")
            return
        except StorageError as error:  # the next beat will look again
            log.warning("beat_unknown instant=%s error=%s", self.instant, error)
            return
        own = self._check_owner(body)
        if own is None:
            return
        if own == sent:
            self.body, self._confirmed_at = sent, sent_at
        elif version.etag != self._etag:
            # Another process of this attempt has beaten, after the file was last seen.
            self.body = replace(self.body, seq=own.seq)
            self._confirmed_at = max(self._confirmed_at, self._seen_at)
        self._etag, self._seen_at = version.etag, looked_at

    def _check_owner(self, body: HeartbeatBody | None) -> HeartbeatBody | None:
        """The body if this attempt wrote it; if not, the instant is lost."""
        if body is not None and body.is_same_attempt(self.body):
            return body
        self._lose(f"taken over by {body or 'a foreign writer'}")
        return None

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason
        log.warning("heartbeat_lost instant=%s reason=%s", self.instant, reason)
        if self.on_loss is not None:
            self.on_loss(HeartbeatLost(f"instant {self.instant} is lost: {reason}"))


def open_instant(
    txn: Txn, ref: TableRef, *, kind: str, after: InstantTime | None = None
) -> tuple[InstantTime, Heartbeat]:
    """A new instant time, and its heartbeat, which beats from now on.

    Needs: a Txn.
    Order: heartbeat file, put-if-absent: no two writers get one time, lock or no lock.
    Crash: a heartbeat without an instant; sweep takes it.
    """
    while True:
        time = new_time(txn, after=after)
        try:
            return time, _create_heartbeat(ref.env, time, _first_body(ref, kind))
        except AlreadyExists:
            after = time


def take_over(ref: TableRef, instant: InstantTime, *, kind: str) -> Heartbeat:
    """Make an instant whose owner is dead this process's, with the next epoch.

    Needs: a transaction, in which the owner was found dead. Raises `HeartbeatLost` if it moved.
    Order: heartbeat file, replaced by condition.
    """
    env, path = ref.env, paths.heartbeat(instant)
    try:
        present, version = read_heartbeat_version(env, instant)
    except NotFound:
        return _create_heartbeat(env, instant, _first_body(ref, kind))
    body = replace(_first_body(ref, kind), epoch=present.epoch + 1 if present else 1)
    sent_at = env.clock.monotonic()
    try:
        etag = replace_once(env, path, json_object.encode(body), if_match=version.etag)
    except PreconditionFailed:
        reason = "its heartbeat changed while it was being taken over, so its writer may live"
        raise HeartbeatLost(f"instant {instant}: {reason}") from None
    return _start_heartbeat(env, instant, body, etag=etag, sent_at=sent_at)


def read_heartbeat(env: Env, instant: InstantTime) -> HeartbeatBody | None:
    """The body of a heartbeat; None if it is not one of ours. Raises `NotFound`."""
    return _decode_body(env.storage.read(paths.heartbeat(instant)))


def read_heartbeat_version(env: Env, instant: InstantTime) -> tuple[HeartbeatBody | None, Version]:
    """The body of a heartbeat as `read_heartbeat` gives it, and the version that it is of."""
    version = env.storage.read_version(paths.heartbeat(instant))
    return _decode_body(version.data), version


def _decode_body(data: bytes) -> HeartbeatBody | None:
    try:
        return json_object.decode(data, HeartbeatBody)
    except FormatError:
        return None


def _first_body(ref: TableRef, kind: str) -> HeartbeatBody:
    process = ref.env.ids.process()
    return HeartbeatBody(
        owner=ref.env.ids.uuid(),
        epoch=1,
        host=process.host,
        pid=process.pid,
        app_id=process.app,
        kind=kind,
        phase="begin",
        interval_ms=ref.config.get(HEARTBEAT_INTERVAL_MS),
        misses=ref.config.get(HEARTBEAT_MISSES),
        seq=1,
    )


def _create_heartbeat(env: Env, instant: InstantTime, body: HeartbeatBody) -> Heartbeat:
    path, sent_at = paths.heartbeat(instant), env.clock.monotonic()
    etag = create_once(env, path, json_object.encode(body))
    return _start_heartbeat(env, instant, body, etag=etag, sent_at=sent_at)


def _start_heartbeat(
    env: Env, instant: InstantTime, body: HeartbeatBody, *, etag: str, sent_at: float
) -> Heartbeat:
    heartbeat = Heartbeat(env, instant, body, etag=etag, sent_at=sent_at)
    heartbeat.start()
    return heartbeat
