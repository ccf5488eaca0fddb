"""What happened in a run, one line each, for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One move of one actor, or something that befell it (which has no number)."""

    number: int | None
    at_ms: int
    """Virtual time since the start of the world."""
    actor: str
    operation: int
    """Which storage operation of the actor; 0 for other moves."""
    verb: str
    path: str
    outcome: str

    def __str__(self) -> str:
        number = "" if self.number is None else self.number
        who = f"{self.actor}#{self.operation}" if self.operation else self.actor
        line = f"{number:>5} {self.at_ms / 1000:>10.3f}  {who:<14} {self.verb:<9} {self.path}"
        return f"{line}  {self.outcome}" if self.outcome else line.rstrip()
