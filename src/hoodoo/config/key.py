"""Settings: a `Key[T]` describes one, and a `Config` holds the values that users give.

A `Key` has a name, a parser of its text, a default, and a line of doc. A `Config` is immutable and
answers by `Key`. The last section has the keys about options themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from hoodoo.errors import ConfigError, UnsupportedValue

# -- keys ------------------------------------------------------------------------------------------


T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class HudiOnlyValue(ValueError):
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
            kind = UnsupportedValue if isinstance(error, HudiOnlyValue) else ConfigError
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
    members = {str(member.value).lower(): member for member in enum}
    members |= {spelling.lower(): member for spelling, member in spellings.items()}
    absent = {value.lower() for value in elsewhere}

    def parse(value: str) -> E:
        plain = value.rpartition(".")[2].lower()
        member = members.get(plain)
        if member is None:
            kind = HudiOnlyValue if plain in absent else ValueError
            raise kind(f"expected one of {', '.join(str(m.value) for m in enum)}")
        return member

    return parse


# -- options -> Config -----------------------------------------------------------------------------


# Names of options for the table; those that begin otherwise are for the storage.
_TABLE_OPTIONS = ("hoodie.", "hoodoo.", "_hoodie.", "_.hoodie.")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings by key; absent ones have their default."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: Key[T]) -> T:
        """The value of a key: set under its name or an alias, else the default."""
        for name in (key.name, *key.aliases):
            text = self.values.get(name)
            if text is not None:
                return key.read(text, name=name)
        return key.default

    def sets(self, key: Key[T]) -> bool:
        """Whether a key was given at all."""
        return self.spelling(key) is not None

    def spelling(self, key: Key[T]) -> str | None:
        """The name under which a key was set: its own or an alias; None if it was not."""
        return next((name for name in (key.name, *key.aliases) if name in self.values), None)

    def over(self, lower: Mapping[str, str]) -> Config:
        """This config on top of `lower`."""
        return Config({**lower, **self.values})


def split_options(options: Mapping[str, object] | None) -> tuple[Config, dict[str, str]]:
    """Table options (`hoodie.*`, `hoodoo.*`) and storage options (all others), as text."""
    table: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, value in (options or {}).items():
        if not isinstance(name, str):
            raise ConfigError(key=repr(name), value=value, reason="an option's name is a text")
        (table if name.startswith(_TABLE_OPTIONS) else storage)[name] = as_text(name, value)
    return Config(table), storage


def as_text(name: str, value: object) -> str:
    """A typed option value as the text that would stand in a properties file."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case _:
            kind = type(value).__name__
            raise ConfigError(key=name, value=value, reason=f"a {kind} cannot be an option")


# -- keys about options ----------------------------------------------------------------------------


STRICT = Key(
    "hoodoo.strict",
    boolean,
    False,
    "An option that neither hoodoo nor Apache Hudi knows is an error, not a warning.",
)
