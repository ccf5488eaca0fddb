"""The line of text by which a lock says who holds it: for people to read, and for us to parse.

3f0c...e1 phase=commit since=1767225600000 lease=60000 pid=4711 host=node7 app=nightly load

`since` (of the lock; in ZooKeeper, of the place in the queue) and `lease` are milliseconds; `lease`
is left out where a lock has none. A text that does not look like this is a foreign owner's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoodoo.concurrency.lock_protocol import Holder
from hoodoo.env import Env

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
        found = _LINE.fullmatch(text)
        if found is None:
            return None
        lease_ms = int(found["lease"]) if found["lease"] else None
        return cls(
            found["id"],
            found["phase"],
            int(found["since"]),
            int(found["pid"]),
            found["host"],
            found["app"],
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
