"""Schedules by chance: the same seed, the same decisions.

Each seed draws its own character first: which of the possible faults it deals in, and whether
actors are picked at random, more or less stubbornly, or by priorities that change a few times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from hoodoo.testing.sim.faults import Fault, Kind, Operation

_STAYS = (0.0, 0.5, 0.8, 0.95)
_HORIZONS = (20, 60, 200, 600)  # steps among which priorities change
_MOST_CHANGES = 4
_INTERRUPT_MS = 10_000  # how long after an operation an interrupt comes, at most
_BY_PRIORITY = 0.3  # of all seeds


@dataclass(frozen=True, slots=True)
class Chances:
    """How often what goes wrong, per operation; without rates, nothing does."""

    rates: Mapping[Kind, float] = field(default_factory=dict)
    at_most: int = 3
    """Faults in one run."""
    spared: frozenset[str] = frozenset()
    """Processes that meet no faults."""
    stay: float | None = None
    """How likely an actor goes on; None: each seed has its own."""
    pause_ms: int = 1_200_000
    """The longest pause; most are much shorter."""
    delay_ms: int = 60_000
    """The same for slow requests and responses, for stragglers, and for outages."""
    jump_ms: int = 86_400_000
    """The same for jumps of clocks, forwards and back."""


def all_faults(rate: float = 0.01, *, but: Sequence[Kind] = ()) -> dict[Kind, float]:
    """Rates that give every kind of fault the same share of `rate`."""
    kinds = [kind for kind in Kind if kind not in but]
    return {kind: rate / len(kinds) for kind in kinds}


class Seeded:
    """The schedule that a seed makes of chances."""

    def __init__(self, seed: int, chances: Chances | None = None) -> None:
        self.chances = chances or Chances()
        self._seed = seed
        self._random = random = Random(f"schedule {seed}")
        self._kinds = [kind for kind in self.chances.rates if random.random() < 0.5]
        self._rates = [self.chances.rates[kind] for kind in self._kinds]
        self._rate = sum(self._rates)
        self._left = self.chances.at_most
        drawn = random.choice(_STAYS)
        self._stay = drawn if self.chances.stay is None else self.chances.stay
        self._priorities: dict[str, float] = {}
        self._changes: set[int] = set()
        if random.random() < _BY_PRIORITY and self.chances.stay is None:
            horizon = range(random.choice(_HORIZONS))
            self._changes = set(random.sample(horizon, random.randint(1, _MOST_CHANGES)))

    @property
    def seed(self) -> int:
        return self._seed

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        if self._changes:
            return self._foremost(step, names)
        if stays and self._random.random() < self._stay:
            return 0
        return int(self._random.random() * len(names))

    def fault(self, operation: Operation) -> Fault | None:
        if self._random.random() >= self._rate or not self._left:
            return None
        fault = self._draw(self._random.choices(self._kinds, self._rates)[0])
        if operation.process in self.chances.spared or not fault.suits(operation):
            return None
        self._left -= 1
        return fault

    def _foremost(self, step: int, names: Sequence[str]) -> int:
        """The one of highest priority; at a change, that one becomes the last of all."""
        for name in names:
            if name not in self._priorities:
                self._priorities[name] = self._random.random()
        ranked = sorted(names, key=self._priorities.__getitem__)
        if step in self._changes:
            self._priorities[ranked[-1]] = -step
            ranked.insert(0, ranked.pop())
        return names.index(ranked[-1])

    def _draw(self, kind: Kind) -> Fault:
        chances = self.chances
        match kind:
            case Kind.PAUSE:
                return Fault(kind, self._long(chances.pause_ms))
            case Kind.JUMP | Kind.JUMP_STORE:
                sign = self._random.choice((1, -1))
                return Fault(kind, sign * self._long(chances.jump_ms))
            case Kind.SLOW_REQUEST | Kind.SLOW_RESPONSE | Kind.STRAGGLER | Kind.CRASH_IN_FLIGHT:
                return Fault(kind, self._long(chances.delay_ms))
            case Kind.OUTAGE | Kind.OUTAGE_LOST | Kind.OUTAGE_LATE:
                return Fault(kind, self._long(chances.delay_ms))
            case Kind.INTERRUPT:
                later = self._random.random() < 0.5
                return Fault(kind, self._long(_INTERRUPT_MS) if later else 0)
            case _:
                return Fault(kind)

    def _long(self, most_ms: int) -> int:
        """From 10 ms to the most, every order of magnitude alike."""
        return int(10 * (most_ms / 10) ** self._random.random())
