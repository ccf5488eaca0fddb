"""Options as users give them -> one immutable `Config` that answers by `Key`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodoo.config.key import Key, T
from hoodoo.errors import ConfigError

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
