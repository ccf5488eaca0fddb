"""`Key[T]`: one setting: its name, how its text is read, its default, and a line of doc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from hoodoo.errors import ConfigError

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """A `hoodie.*` key that we honour."""

    name: str
    parse: Callable[[str], T]
    default: T
    doc: str
    aliases: tuple[str, ...] = ()

    def read(self, text: str, *, name: str | None = None) -> T:
        """The value of a text, or `ConfigError` naming key and value."""
        try:
            return self.parse(text.strip())
        except ValueError as error:
            raise ConfigError(
                key=name or self.name, value=text, reason=str(error) or "not a legal value"
            ) from None


def text(value: str) -> str:
    """Any text."""
    return value


def optional_text(value: str) -> str | None:
    """A text; an empty one means none."""
    return value or None


def names(value: str) -> tuple[str, ...]:
    """A comma list."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def boolean(value: str) -> bool:
    """true or false."""
    match value.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("expected true or false")


def integer(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("expected a whole number") from None
        if not minimum <= number <= maximum:
            raise ValueError(f"expected a number from {minimum} to {maximum}")
        return number

    return parse


def fraction(value: str) -> float:
    """A number between 0 and 1, both excluded."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError("expected a number") from None
    if not 0 < number < 1:
        raise ValueError("expected a number between 0 and 1")
    return number


def one_of(enum: type[E], **spellings: E) -> Callable[[str], E]:
    """A member of an enum by value, in any case, or by another spelling (a Java class name)."""
    known = {str(member.value).lower(): member for member in enum}
    known |= {spelling.lower(): member for spelling, member in spellings.items()}

    def parse(value: str) -> E:
        member = known.get(value.rpartition(".")[2].lower())
        if member is None:
            raise ValueError(f"expected one of {', '.join(str(m.value) for m in enum)}")
        return member

    return parse
