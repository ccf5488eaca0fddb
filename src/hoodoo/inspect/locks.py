"""The table's lock for people: which one it is, who holds it, since when and how long yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from hoodoo.concurrency.locks.lock import Owner
from hoodoo.concurrency.locks.table_lock import describe_lock_location, make_lock
from hoodoo.config.concurrency import LOCK_PROVIDER
from hoodoo.table.ref import TableRef


@dataclass(frozen=True, slots=True)
class LockReport:
    """A table's lock as it is now; what its holder does not tell is None."""

    provider: str
    place: str
    is_held: bool
    owner: str | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    phase: str | None = None
    since: str | None = None
    """By the holder's clock, in UTC."""
    lease_seconds: float | None = None
    """How long the holder's lease, or its session, lasts unless renewed."""
    expires_in_seconds: float | None = None
    """By our clock; negative once it may be taken over; None where it does not end by itself."""

    @property
    def is_live(self) -> bool:
        """Whether the holder still has a right to it, as far as one can tell from outside."""
        return self.is_held and (self.expires_in_seconds is None or self.expires_in_seconds > 0)


def lock_status(ref: TableRef) -> LockReport:
    """Who holds the table's lock. An in_process lock shows only those of this process."""
    provider, place = ref.config.get(LOCK_PROVIDER).value, describe_lock_location(ref)
    holder = make_lock(ref, "status").holder()
    if holder is None:
        return LockReport(provider, place, is_held=False)
    owner = Owner.parse(holder.owner)
    left_ms = holder.expires_in_ms
    return LockReport(
        provider,
        place,
        is_held=True,
        owner=holder.owner,
        app=holder.app,
        host=holder.host,
        pid=holder.pid,
        phase=holder.phase,
        since=_time(owner.since_ms) if owner else None,
        lease_seconds=owner.lease_ms / 1000 if owner and owner.lease_ms else None,
        expires_in_seconds=None if left_ms is None else left_ms / 1000,
    )


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")
