"""What decides about an upgrade, read from the table."""

from __future__ import annotations

from collections.abc import Iterable

from hoodoo.concurrency.liveness import take_pulses
from hoodoo.config import table as keys
from hoodoo.errors import naming
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.parquet import open_parquet
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model import paths
from hoodoo.model.files import LogFile
from hoodoo.model.instant import InstantTime
from hoodoo.model.keys import KeyGenerator
from hoodoo.model.paths import TimelinePaths
from hoodoo.services.upgrade_plan import UpgradeFacts, needs_log_names
from hoodoo.services.upgrade_properties import PAYLOADS
from hoodoo.services.upgrade_timeline import OldFile
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import take_snapshot
from hoodoo.timeline.load import parse_states

NEW_TIMELINE = TimelinePaths.of(2)


def load_facts(ref: TableRef) -> UpgradeFacts:
    """Order: timeline; heartbeats; then data files, as far as they decide."""
    properties, timeline = ref.properties, ref.load_timeline()
    named: frozenset[InstantTime] = frozenset()
    blocks: dict[InstantTime, str] = {}
    if needs_log_names(properties, timeline):
        lister = DirectoryLister(ref.env, properties.keys)
        logs = [file for file in lister.files() if isinstance(file, LogFile)]
        named = frozenset(log.name.instant_time for log in logs)
        writes = {each.requested_time for each in timeline.pending if each.action.writes_data}
        blocks = _find_blocks(ref, logs, writes)
    return UpgradeFacts(
        properties,
        timeline,
        pulses=take_pulses(ref, timeline.pending),
        named_in_logs=named,
        unfinished_blocks=blocks,
        has_logs=_depends_on_logs(ref),
        sample_key=_read_sample_key(ref),
        foreign_file=_find_foreign_file(ref),
    )


def load_old_files(ref: TableRef) -> list[OldFile]:
    """The active timeline of layout 1, each file by its instant, oldest first."""
    found = [
        OldFile(state, entry.path, entry.modified_ms, entry.size_bytes)
        for entry in ref.env.storage.list(paths.META)
        for state in parse_states((entry,), ref.properties.timeline)
    ]
    return sorted(found, key=lambda file: (file.instant.requested_time, file.instant.state.rank))


def _find_blocks(
    ref: TableRef, logs: Iterable[LogFile], times: set[InstantTime]
) -> dict[InstantTime, str]:
    """In which log file each of these instants has blocks, if in any."""
    found: dict[InstantTime, str] = {}
    for log in logs:
        data = ref.env.storage.read(log.path)
        with naming(log.path):
            for block in read_blocks(data).blocks:
                if block.instant_time in times:
                    found.setdefault(block.instant_time, log.path)
    return found


def _depends_on_logs(ref: TableRef) -> bool:
    """Asked only of tables whose rows may depend on it."""
    payload = PAYLOADS.get(ref.properties.raw.get(keys.PAYLOAD_CLASS.name, ""))
    if payload is None or payload.merges_alike:
        return False
    return any(each.logs for each in take_snapshot(ref).slices())


def _read_sample_key(ref: TableRef) -> str | None:
    """The key of some row, where the version does not tell what keys look like."""
    rule = ref.properties.keys
    if rule.generator is not KeyGenerator.COMPLEX or len(rule.record_fields) != 1:
        return None
    for each in take_snapshot(ref).slices():
        if each.base is None:
            continue
        with naming(each.base.path), ref.env.storage.open_read(each.base.path) as source:
            for batch in open_parquet(source).iter_batches(1, columns=[RECORD_KEY]):
                if batch.num_rows:
                    key = batch.column(0)[0].as_py()
                    return None if key is None else str(key)
    return None


def _find_foreign_file(ref: TableRef) -> str | None:
    if ref.properties.version.timeline_layout != 1 or ref.env.storage.exists(paths.UPGRADE):
        return None
    entries = ref.env.storage.list(NEW_TIMELINE.active, recursive=True)
    return next((entry.path for entry in entries), None)
