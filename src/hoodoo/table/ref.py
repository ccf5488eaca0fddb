"""`TableRef`: an opened table: its world, its properties, and the caller's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from hoodoo.config.check import check_options
from hoodoo.config.concurrency import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES
from hoodoo.config.key import Config, split_options
from hoodoo.errors import TableChanged
from hoodoo.model.commit import CommitNotes
from hoodoo.model.table import TableProperties
from hoodoo.runtime.env import Env
from hoodoo.table.properties import load_properties
from hoodoo.table.timeline import Timeline, load_timeline

_MAY_CHANGE = frozenset({"metadata_partitions", "metadata_partitions_inflight", "raw"})
"""Properties that a handle can follow; whether it can write such a table is asked each time."""


@dataclass(frozen=True)
class TableRef:
    """A table as it was opened; pickles to executors."""

    env: Env
    properties: TableProperties
    config: Config
    options: Config = field(default_factory=Config)
    """What the caller set; `config` has the table's own settings below that."""
    notes: CommitNotes = field(default_factory=CommitNotes)
    """What the caller has the commit of a write say; a write has a `TableRef` of its own."""

    @property
    def uri(self) -> str:
        return self.env.storage.uri

    def load_timeline(self) -> Timeline:
        """The active timeline as it is now."""
        return load_timeline(self.env, self.properties.timeline_paths)

    def reopen(self) -> TableRef:
        """The table with its properties as they are now.

        Raises `NoSuchTable` if it was dropped, `TableChanged` if it is another one by now.
        """
        present = load_properties(self.env)
        differences = [
            each.name
            for each in fields(TableProperties)
            if each.name not in _MAY_CHANGE
            and getattr(present, each.name) != getattr(self.properties, each.name)
        ]
        if differences:
            raise TableChanged(
                f"the table at {self.uri} was changed, or created anew, since it was opened "
                f"({', '.join(differences)}): open it again"
            )
        if present.raw == self.properties.raw:
            return self
        return self._with(present)

    def reopen_unchecked(self) -> TableRef:
        """The table with its properties as they are now, whatever has changed."""
        return self._with(load_properties(self.env))

    def with_notes(self, notes: CommitNotes) -> TableRef:
        """The same for one write, whose commit says this."""
        return replace(self, notes=notes)

    def _with(self, present: TableProperties) -> TableRef:
        config = self.options.over(present.raw)
        return TableRef(self.env, present, config, self.options, self.notes)


def open_ref(
    uri: str, options: Mapping[str, object] | None = None, env: Env | None = None
) -> TableRef:
    """Open the table at `uri`; options are settings (`hoodie.*`) and storage options."""
    config, storage_options = split_options(options)
    check_options(config)
    if env is None:
        env = Env.of(uri, storage_options, upload_limit_s=upload_limit_s(config))
        properties = load_properties(env)
        whole = config.over(properties.raw)
        if upload_limit_s(whole) != upload_limit_s(config):  # the table has heartbeats of its own
            env = Env.of(uri, storage_options, upload_limit_s=upload_limit_s(whole))
    else:
        properties = load_properties(env)
    return TableRef(env, properties, config.over(properties.raw), config)


def upload_limit_s(config: Config) -> float:
    """How long a large upload may take: half as long as its writer may be silent.

    So it is over when others take its writer for dead and sweep its files.
    """
    return config.get(HEARTBEAT_INTERVAL_MS) * config.get(HEARTBEAT_MISSES) / 2 / 1000
