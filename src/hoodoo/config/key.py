"""`Key[T]`: one setting: its name, how its text is read, its default, and a line of doc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from hoodoo.errors import ConfigError, UnsupportedValue

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Elsewhere(ValueError):
    """Apache Hudi has this value, and hoodoo does not."""


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
            kind = UnsupportedValue if isinstance(error, Elsewhere) else ConfigError
            raise kind(
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


def one_of(enum: type[E], *elsewhere: str, **spellings: E) -> Callable[[str], E]:
    """A member of an enum by value, in any case, or by another spelling (a Java class name).

    `elsewhere`: values that Apache Hudi has and hoodoo has not.
    """
    known = {str(member.value).lower(): member for member in enum}
    known |= {spelling.lower(): member for spelling, member in spellings.items()}
    absent = {value.lower() for value in elsewhere}

    def parse(value: str) -> E:
        plain = value.rpartition(".")[2].lower()
        member = known.get(plain)
        if member is None:
            kind = Elsewhere if plain in absent else ValueError
            raise kind(f"expected one of {', '.join(str(m.value) for m in enum)}")
        return member

    return parse
