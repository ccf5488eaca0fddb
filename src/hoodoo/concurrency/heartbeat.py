"""Heartbeats: how an attempt shows that it lives, and learns that it has lost its instant.

The body names the attempt. A beat replaces the file on condition that it is as this attempt left
it, so an attempt that was taken over, or whose file was removed, notices at its next beat, and
stops for good: others may be undoing its work.

An attempt may be at work in several processes, at once or one after the other (`resume`). They
beat the same file; a beat of one of them is as good as one's own.
"""

from __future__ import annotations

import logging
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
from hoodoo.model.attempt import Beat
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
        beat: Beat,
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
        self.attempt = beat
        self.phase = beat.phase
        self._etag = etag
        self._seen_at = sent_at if seen_at is None else seen_at
        self._confirmed_at = sent_at
        self._lost: str | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Beat from now on, at least four times before the silence would count as death."""
        period_ms = min(self.attempt.interval_ms, self.attempt.expiry_ms // 4)
        self._timer = self._env.clock.every(period_ms, self.beat)

    def beat(self) -> None:
        """Show once more that this attempt lives; never again once the instant may be lost."""
        if self._lost:
            return
        sent_at = self._env.clock.monotonic()
        if self._silent_ms() >= self.attempt.expiry_ms:
            self._lose("it was silent for longer than its expiry")
            return
        sent = replace(self.attempt, seq=self.attempt.seq + 1, phase=self.phase)
        path = paths.heartbeat(self.instant)
        try:
            info = self._env.storage.replace(path, json_object.encode(sent), if_match=self._etag)
        except (PreconditionFailed, OutcomeUnknown):
            self._look(sent, sent_at)
        except StorageError as error:
            log.warning("beat_failed instant=%s error=%s", self.instant, error)
        else:
            self.attempt, self._etag = sent, info.etag
            self._confirmed_at = self._seen_at = sent_at

    def check(self) -> None:
        """Fail unless this attempt surely still counts as alive. Raises `HeartbeatLost`.

        Half the expiry is kept in reserve: what follows must be done before others may act.
        """
        if self._lost is None and self._silent_ms() * 2 >= self.attempt.expiry_ms:
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

    def _silent_ms(self) -> float:
        return (self._env.clock.monotonic() - self._confirmed_at) * 1000

    def _look(self, sent: Beat, sent_at: float) -> None:
        """A beat failed, or its answer was lost: whose is the file, and which beat is in it?"""
        looked_at = self._env.clock.monotonic()
        try:
            body, version = read_heartbeat(self._env, self.instant)
        except NotFound:
            self._lose("its heartbeat is gone")
            return
        except StorageError as error:  # the next beat will look again
            log.warning("beat_unknown instant=%s error=%s", self.instant, error)
            return
        own = self._own(body)
        if own is None:
            return
        if own == sent:
            self.attempt, self._confirmed_at = sent, sent_at
        elif version.etag != self._etag:
            # Another process of this attempt has beaten, after the file was last seen.
            self.attempt = replace(self.attempt, seq=own.seq)
            self._confirmed_at = max(self._confirmed_at, self._seen_at)
        self._etag, self._seen_at = version.etag, looked_at

    def _own(self, body: Beat | None) -> Beat | None:
        """The body if this attempt wrote it; if not, the instant is lost."""
        if body is not None and body.is_same_attempt(self.attempt):
            return body
        self._lose(f"taken over by {body or 'a foreign writer'}")
        return None

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason
        log.warning("heartbeat_lost instant=%s reason=%s", self.instant, reason)


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
            return time, _created(ref.env, time, _first_beat(ref, kind))
        except AlreadyExists:
            after = time


def take_over(ref: TableRef, instant: InstantTime, *, kind: str) -> Heartbeat:
    """Make an instant whose owner is dead this process's, with the next epoch.

    Needs: a transaction, in which the owner was found dead. Raises `HeartbeatLost` if it moved.
    Order: heartbeat file, replaced by condition.
    """
    env, path = ref.env, paths.heartbeat(instant)
    try:
        present, version = read_heartbeat(env, instant)
    except NotFound:
        return _created(env, instant, _first_beat(ref, kind))
    beat = replace(_first_beat(ref, kind), epoch=present.epoch + 1 if present else 1)
    sent_at = env.clock.monotonic()
    try:
        etag = replace_once(env, path, json_object.encode(beat), if_match=version.etag)
    except PreconditionFailed:
        raise HeartbeatLost(f"instant {instant} moved while it was being taken over") from None
    return _beating(env, instant, beat, etag=etag, sent_at=sent_at)


def read_beat(env: Env, instant: InstantTime) -> Beat | None:
    """The body of a heartbeat; None if it is not one of ours. Raises `NotFound`."""
    return _decoded(env.storage.read(paths.heartbeat(instant)))


def read_heartbeat(env: Env, instant: InstantTime) -> tuple[Beat | None, Version]:
    """The body of a heartbeat as `read_beat` gives it, and the version that it is of."""
    version = env.storage.read_version(paths.heartbeat(instant))
    return _decoded(version.data), version


def _decoded(data: bytes) -> Beat | None:
    try:
        return json_object.decode(data, Beat)
    except FormatError:
        return None


def _first_beat(ref: TableRef, kind: str) -> Beat:
    process = ref.env.ids.process()
    return Beat(
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


def _created(env: Env, instant: InstantTime, beat: Beat) -> Heartbeat:
    path, sent_at = paths.heartbeat(instant), env.clock.monotonic()
    etag = create_once(env, path, json_object.encode(beat))
    return _beating(env, instant, beat, etag=etag, sent_at=sent_at)


def _beating(env: Env, instant: InstantTime, beat: Beat, *, etag: str, sent_at: float) -> Heartbeat:
    heartbeat = Heartbeat(env, instant, beat, etag=etag, sent_at=sent_at)
    heartbeat.start()
    return heartbeat
