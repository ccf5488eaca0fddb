"""Who moves next, and what goes wrong: all that is left to chance in a simulation.

A run is a function of the scenario, the seed of its world (ids, costs, skews) and the schedule's
decisions. The decisions that were not the default ones are a `Script`, which repeats the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hoodoo.testing.sim.faults import Fault, Operation


class Schedule(Protocol):
    """Decides each step of a run."""

    @property
    def seed(self) -> int:
        """Of the world: ids, costs of operations, skews of clocks."""

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        """Which of these actors moves at `step`; the first one is the default.

        `stays`: that one is about to go on; to pick another is a preemption.
        """

    def fault(self, operation: Operation) -> Fault | None:
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

    def fault(self, operation: Operation) -> Fault | None:
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

    def fault(self, operation: Operation) -> Fault | None:
        is_there = operation.actor == self.actor and self.part in operation.path
        return self.fault_there if is_there and operation.mutates else None


@dataclass(frozen=True, slots=True)
class Decision:
    """A point of a run at which several actors could move."""

    step: int
    names: tuple[str, ...]
    """The default first."""
    before: Operation | None
    """What that one was about to do: all others are preemptions. None: it had to stop anyway."""


class Recorded:
    """A script that also writes down where it could have gone another way."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.decisions: list[Decision] = []
        self._asked: Operation | None = None

    @property
    def seed(self) -> int:
        return self.script.seed

    def pick(self, step: int, names: Sequence[str], *, stays: bool) -> int:
        before = self._asked if stays else None
        self.decisions.append(Decision(step, tuple(names), before))
        return self.script.pick(step, names, stays=stays)

    def fault(self, operation: Operation) -> Fault | None:
        self._asked = operation  # the next decision is whether it may go on to do this
        return self.script.fault(operation)
