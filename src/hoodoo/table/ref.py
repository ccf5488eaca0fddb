"""`TableRef`: an opened table: its world, its properties, and the caller's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodoo.config import ALL_KEYS
from hoodoo.config.concurrency import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
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
    if env is not None:
        properties = load_properties(env)
        return TableRef(env, properties, config.over(properties.raw))
    limit_s = upload_limit_s(config)
    env = Env.of(uri, storage_options, upload_limit_s=limit_s)
    properties = load_properties(env)
    config = config.over(properties.raw)
    if upload_limit_s(config) != limit_s:  # the table has heartbeats of its own
        env = Env.of(uri, storage_options, upload_limit_s=upload_limit_s(config))
    return TableRef(env, properties, config)


def upload_limit_s(config: Config) -> float:
    """How long a large upload may take: half as long as its writer may be silent.

    So it is over when others take its writer for dead and sweep its files.
    """
    return config.get(HEARTBEAT_INTERVAL_MS) * config.get(HEARTBEAT_MISSES) / 2 / 1000
