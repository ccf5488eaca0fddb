"""Who moves next, and what goes wrong: all that is left to chance in a simulation.

A run is a function of the scenario, the seed of its world (ids, costs, skews) and the schedule's
decisions. The decisions that were not the default ones are a `Script`, which repeats the run.

A seeded schedule decides by chance: the same seed, the same decisions. Each seed first draws which
of the possible faults it causes, and whether actors are picked at random, more or less stubbornly,
or by priorities that change a few times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from hoodoo_testing.simulator.world.faults import Fault, FaultKind, StorageOperation

# -- scripts of decisions --------------------------------------------------------------------------


class Schedule(Protocol):
    """Decides each step of a run."""

    @property
    def seed(self) -> int:
        """Of the world: ids, costs of operations, skews of clocks."""

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        """Which of these actors moves at `step`; the first one is the default.

        `stays`: that one is about to go on; to pick another is a preemption.
        """

    def fault(self, operation: StorageOperation) -> Fault | None:
        """What goes wrong with this operation."""


_PICK = re.compile(r"(\d+)>(\S+)")
_FAULT = re.compile(r"([^\s#]+)#(\d+)=(\S+)")


@dataclass(frozen=True, slots=True)
class Script:
    """Explicit decisions, and the default for all others: whoever moves goes on.

    As text: `17>b` (step 17 is b's) and `a#7=crash_after` (what befalls the 7th operation of a).
    """

    seed: int = 0
    picks: Mapping[int, str] = field(default_factory=dict)
    faults: Mapping[tuple[str, int], Fault] = field(default_factory=dict)

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        name = self.picks.get(step)
        return names.index(name) if name in names else 0

    def fault(self, operation: StorageOperation) -> Fault | None:
        return self.faults.get((operation.actor, operation.number))

    def __str__(self) -> str:
        picks = [f"{step}>{name}" for step, name in sorted(self.picks.items())]
        faults = [f"{actor}#{n}={fault}" for (actor, n), fault in sorted(self.faults.items())]
        return " ".join(picks + faults)

    def __len__(self) -> int:
        return len(self.picks) + len(self.faults)

    def without(self, start: int, count: int) -> Script:
        """The script with some decisions less, counted in the order of its text."""
        words = str(self).split()
        return Script.parse(" ".join(words[:start] + words[start + count :]), seed=self.seed)

    @classmethod
    def parse(cls, text: str, *, seed: int = 0) -> Script:
        """The script that `str` made this text of. Raises `ValueError`."""
        picks: dict[int, str] = {}
        faults: dict[tuple[str, int], Fault] = {}
        for word in text.split():
            if pick := _PICK.fullmatch(word):
                picks[int(pick[1])] = pick[2]
            elif fault := _FAULT.fullmatch(word):
                faults[fault[1], int(fault[2])] = Fault.parse(fault[3])
            else:
                raise ValueError(f"{word!r} is no decision")
        return cls(seed, picks, faults)


@dataclass(frozen=True, slots=True)
class FaultAt:
    """A fault for each mutation of an actor on a path that contains `part`: to set a scene."""

    actor: str
    part: str
    fault_there: Fault
    seed: int = 0

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        return 0

    def fault(self, operation: StorageOperation) -> Fault | None:
        is_there = operation.actor == self.actor and self.part in operation.path
        return self.fault_there if is_there and operation.mutates else None


@dataclass(frozen=True, slots=True)
class SchedulePoint:
    """A point of a run at which several actors could move."""

    step: int
    names: tuple[str, ...]
    """The default first."""
    before: StorageOperation | None
    """What that one was about to do: all others are preemptions. None: it had to stop anyway."""


class RecordingScript:
    """A script that also writes down where it could have gone another way."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.decisions: list[SchedulePoint] = []
        self._asked: StorageOperation | None = None

    @property
    def seed(self) -> int:
        return self.script.seed

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        before = self._asked if stays else None
        self.decisions.append(SchedulePoint(step, tuple(names), before))
        return self.script.pick(step, names, stays=stays)

    def fault(self, operation: StorageOperation) -> Fault | None:
        self._asked = operation  # the next decision is whether it may go on to do this
        return self.script.fault(operation)


# -- schedules by chance ---------------------------------------------------------------------------


_STAYS = (0.0, 0.5, 0.8, 0.95)
_HORIZONS = (20, 60, 200, 600)  # steps among which priorities change
_MOST_CHANGES = 4
_INTERRUPT_MS = 10_000  # how long after an operation an interrupt comes, at most
_BY_PRIORITY = 0.3  # of all seeds


@dataclass(frozen=True, slots=True)
class Chances:
    """How often what goes wrong, per operation; without rates, nothing does."""

    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    at_most: int = 3
    """Faults in one run."""
    spared_processes: frozenset[str] = frozenset()
    """Processes that meet no faults."""
    stay: float | None = None
    """How likely an actor goes on; None: each seed has its own."""
    pause_ms: int = 1_200_000
    """The longest pause; most are much shorter."""
    delay_ms: int = 60_000
    """The same for slow requests and responses, for stragglers, and for outages."""
    jump_ms: int = 86_400_000
    """The same for jumps of clocks, forwards and back."""


def all_faults(rate: float = 0.01, *, but: Sequence[FaultKind] = ()) -> dict[FaultKind, float]:
    """Rates that give every kind of fault the same share of `rate`."""
    kinds = [kind for kind in FaultKind if kind not in but]
    return {kind: rate / len(kinds) for kind in kinds}


class SeededSchedule:
    """The schedule that a seed makes of chances."""

    def __init__(self, seed: int, chances: Chances | None = None) -> None:
        self.chances = chances or Chances()
        self._seed = seed
        self._random = random = Random(f"schedule {seed}")
        self._kinds = [kind for kind in self.chances.rates if random.random() < 0.5]
        self._rates = [self.chances.rates[kind] for kind in self._kinds]
        self._rate = sum(self._rates)
        self._left = self.chances.at_most
        random_stay = random.choice(_STAYS)
        self._stay = random_stay if self.chances.stay is None else self.chances.stay
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

    def fault(self, operation: StorageOperation) -> Fault | None:
        if self._random.random() >= self._rate or not self._left:
            return None
        fault = self._draw(self._random.choices(self._kinds, self._rates)[0])
        if operation.process in self.chances.spared_processes or not fault.suits(operation):
            return None
        self._left -= 1
        return fault

    def _foremost(self, step: int, names: Sequence[str]) -> int:
        """The one of highest priority; at a change, that one becomes the last of all."""
        for name in names:
            if name not in self._priorities:
                self._priorities[name] = self._random.random()
        names_by_priority = sorted(names, key=self._priorities.__getitem__)
        if step in self._changes:
            self._priorities[names_by_priority[-1]] = -step
            names_by_priority.insert(0, names_by_priority.pop())
        return names.index(names_by_priority[-1])

    def _draw(self, kind: FaultKind) -> Fault:
        chances = self.chances
        match kind:
            case FaultKind.PAUSE:
                return Fault(kind, self._long(chances.pause_ms))
            case FaultKind.JUMP | FaultKind.JUMP_STORE:
                sign = self._random.choice((1, -1))
                return Fault(kind, sign * self._long(chances.jump_ms))
            case (
                FaultKind.SLOW_REQUEST
                | FaultKind.SLOW_RESPONSE
                | FaultKind.STRAGGLER
                | FaultKind.CRASH_IN_FLIGHT
            ):
                return Fault(kind, self._long(chances.delay_ms))
            case FaultKind.OUTAGE | FaultKind.OUTAGE_LOST | FaultKind.OUTAGE_LATE:
                return Fault(kind, self._long(chances.delay_ms))
            case FaultKind.INTERRUPT:
                later = self._random.random() < 0.5
                return Fault(kind, self._long(_INTERRUPT_MS) if later else 0)
            case _:
                return Fault(kind)

    def _long(self, most_ms: int) -> int:
        """From 10 ms to the most, every order of magnitude alike."""
        return int(10 * (most_ms / 10) ** self._random.random())
