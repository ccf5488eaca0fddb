"""Carrying an attempt on in another process than the one that began it."""

from __future__ import annotations

from dataclasses import replace

from hoodoo.concurrency.heartbeat import Heartbeat, read_heartbeat_version
from hoodoo.concurrency.liveness import store_time_ms
from hoodoo.errors import HeartbeatLost, NotFound
from hoodoo.model.attempt import HeartbeatBody
from hoodoo.model.instant import InstantTime
from hoodoo.table.ref import TableRef


def resume(ref: TableRef, instant: InstantTime, body: HeartbeatBody, *, phase: str) -> Heartbeat:
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
        present, version = read_heartbeat_version(env, instant)
    except NotFound:
        raise HeartbeatLost(f"instant {instant} is lost: its heartbeat is gone") from None
    if present is None or not present.is_same_attempt(body):
        owner = present or "a foreign writer"
        raise HeartbeatLost(f"instant {instant} is lost: taken over by {owner}")
    me = env.ids.process()
    own_body = replace(present, host=me.host, pid=me.pid, phase=phase)
    sent_at = probed_at - max(now_ms - version.modified_ms, 0) / 1000
    heartbeat = Heartbeat(
        env, instant, own_body, etag=version.etag, sent_at=sent_at, seen_at=seen_at
    )
    heartbeat.beat()
    heartbeat.check()
    heartbeat.start()
    return heartbeat
