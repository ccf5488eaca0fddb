"""`TableRef`: an opened table: its world, its properties, and the caller's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodoo.config import ALL_KEYS
from hoodoo.config.resolve import Config, check, split_options
from hoodoo.env import Env
from hoodoo.model.table import TableProperties
from hoodoo.table.properties import load_properties
from hoodoo.timeline.load import load_timeline
from hoodoo.timeline.timeline import Timeline


@dataclass(frozen=True)
class TableRef:
    """A table as it was opened; pickles to executors."""

    env: Env
    properties: TableProperties
    config: Config

    @property
    def uri(self) -> str:
        return self.env.storage.uri

    def load_timeline(self) -> Timeline:
        """The active timeline as it is now."""
        return load_timeline(self.env, self.properties.timeline)


def open_ref(
    uri: str, options: Mapping[str, object] | None = None, env: Env | None = None
) -> TableRef:
    """Open the table at `uri`; options are settings (`hoodie.*`) and storage options."""
    config, storage_options = split_options(options)
    check(config, ALL_KEYS)
    env = env or Env.of(uri, storage_options)
    properties = load_properties(env)
    return TableRef(env, properties, config.over(properties.raw))
