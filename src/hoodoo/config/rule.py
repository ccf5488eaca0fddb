"""`Rule`: what hoodoo does with a key that Apache Hudi has and hoodoo does not honour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hoodoo.config.key import Key


class Kind(Enum):
    """How an option that is not honoured is met."""

    TUNING = "tuning"
    """Speed, memory, or a feature that is off: no value changes what is written."""
    NOTED = "noted"
    """Has no effect, which the user should know: a warning when the table is opened."""
    ONLY = "only"
    """Changes what a write means: values other than those hoodoo acts by fail the write."""
    NOT_BUILT = "not built"
    """Switches on what hoodoo does not have yet: that fails the write."""
    TABLE = "table"
    """Said by the table, or by the call: a value that says something else fails the write."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of one key."""

    kind: Kind
    accepts: tuple[str, ...] = ()
    """Values that are fine, in any case; "" is an empty text. Class names lack their package."""
    reason: str = ""
    """Why others are not, and what to use instead."""
    key: Key[Any] | None = None
    """Of `Kind.TABLE`: the property of the table that says the same."""

    def allows(self, value: str) -> bool:
        """Whether hoodoo does what this value asks for, as far as the value alone tells."""
        if self.kind in (Kind.TUNING, Kind.TABLE):
            return True
        fine = {each.lower() for each in self.accepts}
        plain = value.strip().lower()
        classes = {each.rpartition(".")[2].strip() for each in plain.split(",")}
        return plain in fine or classes <= fine


Rules = Mapping[str, Rule]


def tuning(prefix: str, names: str = "") -> Rules:
    """Keys that are taken without a word: names below a prefix, or one whole name."""
    return _each(prefix, names, Rule(Kind.TUNING))


def noted(prefix: str, names: str, reason: str, *accepts: str) -> Rules:
    """Keys without effect that are worth a warning."""
    return _each(prefix, names, Rule(Kind.NOTED, accepts, reason))


def only(name: str, accepts: str | tuple[str, ...], reason: str) -> Rules:
    """A key that changes what a write means, and the values of it that hoodoo acts by."""
    values = (accepts,) if isinstance(accepts, str) else accepts
    return {name: Rule(Kind.ONLY, values, reason)}


def not_built(what: str, names: str, off: str = "false") -> Rules:
    """Switches of something to come."""
    return _each("", names, Rule(Kind.NOT_BUILT, (off,), f"hoodoo has no {what} yet"))


def of_table(key: Key[Any], names: str) -> Rules:
    """Names of writers for what is a property of the table."""
    return _each("", names, Rule(Kind.TABLE, reason=f"says what {key.name} says", key=key))


def _each(prefix: str, names: str, rule: Rule) -> Rules:
    return {prefix + name: rule for name in names.split()} if names else {prefix: rule}
