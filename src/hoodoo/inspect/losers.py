"""Of two instants in progress, which one will lose. Pure: the rules are those of the real thing.

Each of the two is asked what it would be told if it looked now (`find_early_conflicts`,
`find_conflicts`), and whether the other would cancel it (`find_cancels`). If neither has to give
way, each is asked what it would meet in the gate if the other had committed before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.conflict import (
    STRATEGIES,
    Conflict,
    Kind,
    Meeting,
    Mine,
    Other,
    find_cancels,
    find_conflicts,
)
from hoodoo.concurrency.early import find_early_conflicts
from hoodoo.concurrency.liveness import Pulse
from hoodoo.concurrency.peers import Peer
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.model.instant import InstantTime
from hoodoo.services.early import choose_strategy

_UNKNOWN = Pulse(0, 0)


class Outcome(Enum):
    """How two instants that touch the same get on."""

    LOSES = "loses"
    """One gives way to the other, or fails on it."""
    LOSES_IF_SECOND = "loses if second"
    """One fails if the other commits before it."""
    SECOND_LOSES = "second loses"
    """Whichever commits second fails."""
    BOTH_COMMIT = "both commit"


@dataclass(frozen=True, slots=True)
class Contender:
    """A write in progress or a pending plan, as the rules see it."""

    other: Other
    """As others meet it."""
    mine: Mine | None
    """As it asks for itself; None for a restore, which asks nobody."""
    is_over: bool = False
    """A write that commits no more: dead, or being rolled back. Nobody gives way to it."""
    is_ending: bool = False
    """A plan that nobody can complete any more; it is in the way until it is off the timeline."""
    is_decided: bool = False
    """It is committed for everybody, and will be visible."""

    @property
    def time(self) -> InstantTime:
        return self.other.time

    @property
    def is_write(self) -> bool:
        return self.other.kind is Kind.INGESTION

    def if_completed(self) -> Other:
        """What the gate would meet if it were completed."""
        return Peer(self.other, _UNKNOWN).if_completed()


@dataclass(frozen=True, slots=True)
class Clash:
    """Two instants that touch the same: how that ends, and over what."""

    outcome: Outcome
    loser: InstantTime | None
    conflicts: tuple[Conflict, ...]
    """What the loser is told; without one, what they share."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide."""

    strategy: ConflictStrategy
    is_early: bool
    """Whether a younger write looks for older ones before it commits."""

    def judge(self, older: Contender, younger: Contender) -> Clash | None:
        """What becomes of the two; None if they have nothing to do with each other."""
        if older.is_over or younger.is_over:
            return None
        # Where each would give way, it is the younger one that is told: it looks when it begins.
        for one, other in ((younger, older), (older, younger)):
            if found := self._find_losses(one, other):
                return Clash(Outcome.LOSES, one.time, found)
        if losses := {
            one.time: found
            for one, other in ((younger, older), (older, younger))
            if (found := self._find_losses_if_second(one, other))
        }:
            (loser, found), *rest = losses.items()
            if rest:
                return Clash(Outcome.SECOND_LOSES, None, found)
            return Clash(Outcome.LOSES_IF_SECOND, loser, found)
        shared = self._find_shared(younger, older.other)
        return Clash(Outcome.BOTH_COMMIT, None, shared) if shared else None

    def _find_losses(self, one: Contender, other: Contender) -> tuple[Conflict, ...]:
        """What stops one now, or ends it when the other commits."""
        mine = one.mine
        if mine is None or one.is_decided or one.is_ending:
            return ()
        if other.is_decided:
            return self._find_conflicts(one, mine, other.if_completed())
        if one.is_write and other.is_write:
            peers = [Peer(other.other, _UNKNOWN)] if self.is_early else []
            return tuple(find_early_conflicts(self.strategy, mine, (), peers))
        if found := self._find_conflicts(one, mine, other.other):
            return found
        is_cancelled = (
            other.is_write
            and other.mine is not None
            and one.time in find_cancels(self.strategy, other.mine, [one.other])
        )
        return self._find_shared(one, other.other) if is_cancelled else ()

    def _find_losses_if_second(self, one: Contender, other: Contender) -> tuple[Conflict, ...]:
        if one.mine is None or one.is_decided or one.is_ending:
            return ()
        if other.mine is None or other.is_ending:
            return ()
        return self._find_conflicts(one, one.mine, other.if_completed())

    def _find_conflicts(self, one: Contender, mine: Mine, other: Other) -> tuple[Conflict, ...]:
        is_cancellable = one.other.is_cancellable
        strategy = choose_strategy(self.strategy, is_cancellable=is_cancellable)
        return tuple(find_conflicts(strategy, mine, [other]))

    def _find_shared(self, one: Contender, other: Other) -> tuple[Conflict, ...]:
        mine = one.mine or Mine(one.time, one.other.kind, one.other.touches)
        shared = Meeting(mine, other, STRATEGIES[self.strategy].same_as).over("it writes to")
        return (shared,) if shared else ()
