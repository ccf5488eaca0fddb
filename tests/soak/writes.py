"""What the journals of the writers say: every write with its keys and its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.processes import Journal

from soak.keys import key_text, value_of, witness_id

HUDI = 9
"""The number of the writer that is Apache Hudi."""


class Outcome(Enum):
    """How a write ended, as its writer was told."""

    ACKNOWLEDGED = "ack"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Write:
    """One write. Its outcome is unknown too if its writer was killed over it."""

    writer: int
    number: int
    keys: frozenset[str]
    outcome: Outcome
    instant: str | None = None
    error: str | None = None

    @property
    def v(self) -> int:
        return value_of(self.writer, self.number)

    @property
    def witness(self) -> str:
        return witness_id(self.writer, self.number)

    @property
    def is_by_hudi(self) -> bool:
        return self.writer == HUDI

    def __str__(self) -> str:
        told = f" {self.error}" if self.error else ""
        return f"{self.witness} ({self.outcome.value}{told}, instant {self.instant})"


def load_writes(folder: Path) -> list[Write]:
    """The writes of all journals of a folder."""
    journals = sorted(folder.glob("*writer-*.journal"))
    return [write for path in journals for write in writes_in(Journal(path).entries())]


def writes_in(entries: list[dict[str, Any]]) -> Iterable[Write]:
    """The writes of one journal, in their order."""
    for entry, after in pairwise([*entries, {"word": "unknown"}]):
        if entry["word"] != "intent":
            continue
        is_told = after["word"] != "intent"
        yield Write(
            entry["writer"],
            entry["number"],
            frozenset(map(key_text, entry["keys"])),
            Outcome(after["word"]) if is_told else Outcome.UNKNOWN,
            after.get("instant"),
            after.get("error"),
        )
