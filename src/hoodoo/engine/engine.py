"""Where per-item work runs: in this process, or on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar, runtime_checkable

from hoodoo.engine.stop import Stop

Item = TypeVar("Item")
Result = TypeVar("Result")


@runtime_checkable
class Repeatable(Protocol):
    """An item that knows which of the attempts at it this is, where a task may run repeatedly."""

    def at_attempt(self, number: int) -> Self:
        """The item for this attempt; no two attempts at any item have the same number."""


@runtime_checkable
class Sized(Protocol):
    """An item that knows how much work it is."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its files and rows, roughly."""


class Engine(Protocol):
    """Applies a task to each item. Tasks and items pickle; results come back in order."""

    @property
    def repeats(self) -> bool:
        """Whether a task may run more than once, at the same time or after its result was taken."""

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: Stop | None = None,
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The first failure of a task is raised; tasks not yet begun are then dropped.

        So is the error of `stop`, once it is requested. `done` is told how many items are done.
        """
