"""Heartbeats: an attempt shows that it is alive, and learns that it has lost its instant.

The body names the attempt. A beat replaces the file on condition that it is as this attempt left
it, so an attempt that was taken over, or whose file was removed, notices at its next beat, and
stops for good: others may be undoing its work. An attempt may be at work in several processes, at
once or one after the other (`resume_heartbeat`). They beat the same file, and each accepts the
beats of the others.

`load_writer_statuses` judges whether writers are alive. A heartbeat's age is the difference between
its modification time and that of a probe that the judge writes to the same store, so no machine's
clock is compared with another's. A crash leaves a heartbeat that ages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hoodoo.config.concurrency import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
from hoodoo.errors import (
    FormatError,
    HeartbeatLost,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
)
from hoodoo.format import json_files
from hoodoo.model import paths
from hoodoo.model.coordination import RELEASE_BODY, HeartbeatBody
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.runtime.env import Env, Timer
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once
from hoodoo.storage.storage import ObjectVersion
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import instant_path

log = logging.getLogger("hoodoo.concurrency")


# -- beating ------------------------------------------------------------------------------------


class Heartbeat:
    """The heartbeat of one attempt at an instant; it beats beside the work until stopped."""

    def __init__(
        self,
        env: Env,
        instant_time: InstantTime,
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
        self.instant = instant_time
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
        next_body = replace(self.body, seq=self.body.seq + 1, phase=self.phase)
        path = paths.heartbeat(self.instant)
        try:
            info = self._env.storage.replace(
                path, json_files.encode(next_body), if_match=self._etag
            )
        except (PreconditionFailed, OutcomeUnknown):
            self._read_back(next_body, sent_at)
        except StorageError as error:
            log.warning("beat_failed instant=%s error=%s", self.instant, error)
        else:
            self.body, self._etag = next_body, info.etag
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
        self.phase = RELEASE_BODY
        self.beat()
        self.stop()

    def _silent_ms(self) -> float:
        return (self._env.clock.monotonic() - self._confirmed_at) * 1000

    def _read_back(self, sent_body: HeartbeatBody, sent_at: float) -> None:
        """A beat failed, or its answer was lost: whose is the file, and which beat is in it?"""
        looked_at = self._env.clock.monotonic()
        try:
            body, version = read_heartbeat_version(self._env, self.instant)
        except ObjectNotFound:
            self._lose("its heartbeat is gone")
            return
        except StorageError as error:  # the next beat will look again
            log.warning("beat_unknown instant=%s error=%s", self.instant, error)
            return
        own = self._check_owner(body)
        if own is None:
            return
        if own == sent_body:
            self.body, self._confirmed_at = sent_body, sent_at
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


def take_over(ref: TableRef, instant_time: InstantTime, *, kind: str) -> Heartbeat:
    """Make an instant whose owner is dead this process's, with the next epoch.

    Needs: a transaction, in which the owner was found dead. Raises `HeartbeatLost` if it moved.
    Order: heartbeat file, replaced by condition.
    """
    env, path = ref.env, paths.heartbeat(instant_time)
    try:
        present, version = read_heartbeat_version(env, instant_time)
    except ObjectNotFound:
        return create_heartbeat(env, instant_time, first_body(ref, kind))
    body = replace(first_body(ref, kind), epoch=present.epoch + 1 if present else 1)
    sent_at = env.clock.monotonic()
    try:
        etag = replace_once(env, path, json_files.encode(body), if_match=version.etag)
    except PreconditionFailed:
        reason = "its heartbeat changed while it was being taken over, so its writer may live"
        raise HeartbeatLost(f"instant {instant_time}: {reason}") from None
    return _start_heartbeat(env, instant_time, body, etag=etag, sent_at=sent_at)


def read_heartbeat(env: Env, instant_time: InstantTime) -> HeartbeatBody | None:
    """The body of a heartbeat; None if it is not one of ours. Raises `ObjectNotFound`."""
    return _decode_body(env.storage.read(paths.heartbeat(instant_time)))


def read_heartbeat_version(
    env: Env, instant_time: InstantTime
) -> tuple[HeartbeatBody | None, ObjectVersion]:
    """The body of a heartbeat as `read_heartbeat` gives it, and the version that it is of."""
    version = env.storage.read_version(paths.heartbeat(instant_time))
    return _decode_body(version.data), version


def _decode_body(data: bytes) -> HeartbeatBody | None:
    try:
        return json_files.decode(data, HeartbeatBody)
    except FormatError:
        return None


def first_body(ref: TableRef, kind: str) -> HeartbeatBody:
    """Return the body of the first heartbeat of a new owner, which is this process."""
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
        max_missed_beats=ref.config.get(HEARTBEAT_MISSES),
        seq=1,
    )


def create_heartbeat(env: Env, instant_time: InstantTime, body: HeartbeatBody) -> Heartbeat:
    """Create the heartbeat file of an instant, put-if-absent, and beat from now on.

    Raises `ObjectExists` if the instant has a heartbeat already.
    """
    path, sent_at = paths.heartbeat(instant_time), env.clock.monotonic()
    etag = create_once(env, path, json_files.encode(body))
    return _start_heartbeat(env, instant_time, body, etag=etag, sent_at=sent_at)


def _start_heartbeat(
    env: Env, instant_time: InstantTime, body: HeartbeatBody, *, etag: str, sent_at: float
) -> Heartbeat:
    heartbeat = Heartbeat(env, instant_time, body, etag=etag, sent_at=sent_at)
    heartbeat.start()
    return heartbeat


# -- whether a writer is alive ------------------------------------------------------------------


SETTLED_EXPIRIES = 2
"""After so many expiries of a heartbeat nothing of an instant lands any more.

Whoever acts for an instant, its owner or a helper, has seen a sign of life of it within one expiry,
or counts as dead and is refused at the head. What was asked of the store by then lands within one
more, or never: that is assumed of small writes (docs/protocol/commit.md). So a file that is older
than two is no late duplicate, and what was deleted two expiries after its instant stays deleted.
"""


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """The last sign of life of an instant's writer, in the store's time."""

    silent_ms: int
    expiry_ms: int
    body: HeartbeatBody | None = None
    """Who beats; None for a writer that leaves no body, or no heartbeat at all."""
    has_heartbeat: bool = True

    @property
    def is_dead(self) -> bool:
        """Whether it has been silent for longer than it said it would be, or has said goodbye."""
        is_released = self.body is not None and self.body.is_released
        return is_released or self.silent_ms > self.expiry_ms

    def __str__(self) -> str:
        who = str(self.body) if self.body else "a writer that does not say who it is"
        sign = "heartbeat" if self.has_heartbeat else "change; it has no heartbeat"
        return (
            f"{who}; last {sign} {self.silent_ms / 1000:.0f} s ago, "
            f"dead after {self.expiry_ms / 1000:.0f} s"
        )


def default_expiry_ms(ref: TableRef) -> int:
    """Silence after which a writer that does not say better counts as dead."""
    return ref.config.get(HEARTBEAT_INTERVAL_MS) * ref.config.get(HEARTBEAT_MISSES)


def store_time_ms(env: Env) -> int:
    """What time it is by the clock that dates the store's objects.

    Order: probe written, looked at, deleted.
    Crash: a probe is left; sweep takes it.
    """
    path = f"{paths.PROBES}/{env.ids.uuid()}"
    env.storage.put(path, b"")
    try:
        return env.storage.stat(path).modified_ms
    finally:
        env.storage.delete(path)


def load_writer_statuses(
    ref: TableRef, instants: Iterable[Instant], now_ms: int | None = None
) -> dict[InstantTime, WriterStatus]:
    """The pulse of each of these pending instants; one that has just moved on is alive.

    `now_ms` is the store's time, if it is known already.
    Order: the probe first, then the heartbeats: whoever beats in between looks younger, not older.
    """
    pending = list(instants)
    if not pending:
        return {}
    if now_ms is None:
        now_ms = store_time_ms(ref.env)
    alive = WriterStatus(0, default_expiry_ms(ref), has_heartbeat=False)
    return {each.requested_time: read_writer_status(ref, each, now_ms) or alive for each in pending}


def read_writer_status(ref: TableRef, instant: Instant, now_ms: int) -> WriterStatus | None:
    """The pulse of a pending instant at this time of the store's; None if it is not there any more.

    By the heartbeat, or without one (Hudi as a single writer) by the instant's last move.
    """
    env, time, expiry_ms = ref.env, instant.requested_time, default_expiry_ms(ref)
    try:
        body, version = read_heartbeat_version(env, time)
    except ObjectNotFound:
        pass
    else:
        silent_ms = now_ms - version.modified_ms
        return WriterStatus(silent_ms, body.expiry_ms if body else expiry_ms, body)
    try:
        moved_ms = env.storage.stat(
            instant_path(ref.properties.timeline_paths, instant)
        ).modified_ms
    except ObjectNotFound:
        return None
    return WriterStatus(now_ms - moved_ms, expiry_ms, has_heartbeat=False)


# -- carrying on in another process -------------------------------------------------------------


def resume_heartbeat(
    ref: TableRef, instant_time: InstantTime, body: HeartbeatBody, *, phase: str
) -> Heartbeat:
    """The heartbeat of an attempt, which beats from now on in this process as well.

    How long the attempt was silent is told by the store's clock, as no other is common to its
    processes: an attempt that was silent for its expiry is lost, whoever wants to carry it on.

    Raises `HeartbeatLost`.
    Order: probe; heartbeat looked at; replaced by condition.
    Crash: the heartbeat ages.
    """
    env = ref.env
    probed_at = env.clock.monotonic()
    now_ms = store_time_ms(env)
    seen_at = env.clock.monotonic()
    try:
        present, version = read_heartbeat_version(env, instant_time)
    except ObjectNotFound:
        raise HeartbeatLost(f"instant {instant_time} is lost: its heartbeat is gone") from None
    if present is None or not present.is_same_attempt(body):
        owner = present or "a foreign writer"
        raise HeartbeatLost(f"instant {instant_time} is lost: taken over by {owner}")
    me = env.ids.process()
    own_body = replace(present, host=me.host, pid=me.pid, phase=phase)
    sent_at = probed_at - max(now_ms - version.modified_ms, 0) / 1000
    heartbeat = Heartbeat(
        env, instant_time, own_body, etag=version.etag, sent_at=sent_at, seen_at=seen_at
    )
    heartbeat.beat()
    heartbeat.check()
    heartbeat.start()
    return heartbeat
