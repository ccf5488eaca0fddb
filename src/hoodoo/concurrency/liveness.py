"""Is the writer of an instant alive? Judged by two times of the same clock, the store's.

A heartbeat's age is the difference between its own modification time and that of a probe that
the judge writes to the same store, so no machine's clock is compared with another's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoodoo.concurrency.heartbeat import read_heartbeat_version
from hoodoo.config.concurrency import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
from hoodoo.env import Env
from hoodoo.errors import NotFound
from hoodoo.model import paths
from hoodoo.model.attempt import HeartbeatBody
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import instant_path


@dataclass(frozen=True, slots=True)
class Pulse:
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


def take_pulses(ref: TableRef, instants: Iterable[Instant]) -> dict[InstantTime, Pulse]:
    """The pulse of each of these pending instants; one that has just moved on is alive.

    Order: the probe first, then the heartbeats: whoever beats in between looks younger, not older.
    """
    pending = list(instants)
    if not pending:
        return {}
    now_ms = store_time_ms(ref.env)
    alive = Pulse(0, default_expiry_ms(ref), has_heartbeat=False)
    return {each.requested_time: read_pulse(ref, each, now_ms) or alive for each in pending}


def read_pulse(ref: TableRef, instant: Instant, now_ms: int) -> Pulse | None:
    """The pulse of a pending instant at this time of the store's; None if it is not there any more.

    By the heartbeat, or without one (Hudi as a single writer) by the instant's last move.
    """
    env, time, expiry_ms = ref.env, instant.requested_time, default_expiry_ms(ref)
    try:
        body, version = read_heartbeat_version(env, time)
    except NotFound:
        pass
    else:
        silent_ms = now_ms - version.modified_ms
        return Pulse(silent_ms, body.expiry_ms if body else expiry_ms, body)
    try:
        moved_ms = env.storage.stat(instant_path(ref.properties.timeline, instant)).modified_ms
    except NotFound:
        return None
    return Pulse(now_ms - moved_ms, expiry_ms, has_heartbeat=False)
