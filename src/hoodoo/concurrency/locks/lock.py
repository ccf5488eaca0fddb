"""The protocol of table locks, and the line of text by which a lock names its holder.

    3f0c...e1 phase=commit since=1767225600000 lease=60000 pid=4711 host=node7 app=nightly load

`since` (of the lock; in ZooKeeper, of the place in the queue) and `lease` are milliseconds; `lease`
is left out where a lock has none. A text that does not look like this is a foreign owner's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from hoodoo.runtime.env import Env


class Fence(Protocol):
    """The lock that a transaction holds, as far as the transaction needs it."""

    def confirm_with_lock(self) -> None:
        """Make sure, by asking, that the lock is ours and lasts long enough to publish.

        Raises `LockLost`.
        """

    def check_last_confirmation(self) -> None:
        """Make sure, without asking, that the last confirmation still covers us.

        Raises `LockLost`.
        """

    def ensure_publish_window(self) -> None:
        """Make sure that the lock covers a publish that is sent now.

        Without asking while the last confirmation is young, else by asking. Raises `LockLost`.
        """

    def budget_s(self) -> float:
        """For how many seconds from now the last confirmation covers what is sent."""

    def is_unbroken(self) -> bool:
        """Ask whether nobody else can have had the lock since it was taken."""


# -- what every lock does -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as far as it tells."""

    owner: str
    """The text that the lock itself keeps."""
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    phase: str | None = None
    expires_in_ms: int | None = None
    """Until others may take the lock; negative once they may; None where it never expires."""


class Lock(Fence, Protocol):
    """A table's lock as one contender sees it, for one acquisition."""

    @property
    def keeps_queue(self) -> bool:
        """Whether a server keeps those who wait in order, so that to look again is free."""

    def try_acquire(self) -> Holder | None:
        """Take the lock now; if someone else has it, tell who, and change nothing."""

    def release(self) -> None:
        """Give the lock up, if it is still ours; never take it from another."""

    def holder(self) -> Holder | None:
        """Who has the lock now."""

    def take_away(self) -> Holder | None:
        """Free the lock, whoever holds it; tells who held it."""


# -- the holder in text -------------------------------------------------------------------------


_LINE = re.compile(
    r"(?P<id>\S+) phase=(?P<phase>\S+) since=(?P<since>\d{1,13})(?: lease=(?P<lease>\d{1,18}))?"
    r" pid=(?P<pid>\d{1,18}) host=(?P<host>\S+) app=(?P<app>.+)"
)
_MOST_CHARACTERS = 200  # of a part: an application's name may be a whole command line


@dataclass(frozen=True, slots=True)
class Owner:
    """One acquisition of a lock: who, what for, and since when; no two are equal."""

    id: str
    phase: str
    since_ms: int
    pid: int
    host: str
    app: str
    lease_ms: int | None = None
    """How long the lease lasts that it keeps renewing."""

    @classmethod
    def new(cls, env: Env, phase: str, *, lease_ms: int | None = None) -> Owner:
        """This process, for one acquisition."""
        me, now_ms = env.ids.process(), env.clock.now_ms()
        phase, host, app = _to_word(phase), _to_word(me.host), _to_one_line(me.app)
        return cls(env.ids.uuid(), phase, now_ms, me.pid, host, app, lease_ms)

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner that a lock's text names; None for a foreign one."""
        match = _LINE.fullmatch(text)
        if match is None:
            return None
        lease_ms = int(match["lease"]) if match["lease"] else None
        return cls(
            match["id"],
            match["phase"],
            int(match["since"]),
            int(match["pid"]),
            match["host"],
            match["app"],
            lease_ms,
        )

    def __str__(self) -> str:
        lease = "" if self.lease_ms is None else f" lease={self.lease_ms}"
        return (
            f"{self.id} phase={self.phase} since={self.since_ms}{lease}"
            f" pid={self.pid} host={self.host} app={self.app}"
        )


def parse_holder(text: str, *, expires_in_ms: int | None = None) -> Holder:
    """What a lock's text tells of its holder."""
    owner = Owner.parse(text)
    if owner is None:
        name = _to_one_line(text) if text.strip() else "someone who gives no name"
        return Holder(name, expires_in_ms=expires_in_ms)
    return Holder(text, owner.app, owner.host, owner.pid, owner.phase, expires_in_ms)


def _to_one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:_MOST_CHARACTERS] or "-"


def _to_word(text: str) -> str:
    return _to_one_line(text).replace(" ", "_")
