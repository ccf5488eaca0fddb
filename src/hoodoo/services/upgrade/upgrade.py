"""Upgrade: a table of version 6 or 8 becomes one of version 9.

Everything new is written beside the old, and nobody looks there. Then one conditional replace of
`hoodie.properties` makes it count. Only then the old goes. So at every moment the table is whole:
of its old version, or of the new one.

The replace is not a decision of the head: whoever came next would carry that out however late it
is, and until then writers of the old version might have gone on.

At the end the metadata table is built anew, if the table had one: by a transaction of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import default_expiry_ms
from hoodoo.concurrency.locks.lock import Lock
from hoodoo.concurrency.locks.table_lock import hold_lock
from hoodoo.config.key import Config
from hoodoo.config.table import archive_folder
from hoodoo.deprecated import find_by_old_name
from hoodoo.errors import PreconditionFailed, TableChanged, UnsupportedFeature, UnsupportedVersion
from hoodoo.format import properties as codec
from hoodoo.format.timeline import history
from hoodoo.format.timeline.old_history import MERGE_PLAN, parse_archive_name
from hoodoo.model import paths
from hoodoo.model.instant import Action, InstantTime, State
from hoodoo.model.names import HistoryFileName, manifest_name
from hoodoo.model.table import TableVersion
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once
from hoodoo.services.upgrade.metadata_table import (
    UpgradeNote,
    choose_partitions,
    leave_note,
    read_note,
    rebuild,
    tidy_definitions,
)
from hoodoo.services.upgrade.plan import (
    NEW_TIMELINE,
    PropertyChange,
    PropertyChanges,
    describe_changes,
    drop_metadata_table,
    load_facts,
    load_old_files,
    plan_upgrade,
)
from hoodoo.services.upgrade.timeline import (
    OldFile,
    assign_completions,
    choose_archived_completions,
    is_clustering_plan,
    new_content,
    new_name,
    parse_old_name,
)
from hoodoo.storage import probe_conditions
from hoodoo.table.history import archive_files, read_archive
from hoodoo.table.properties import decode_properties, load_properties, read_properties
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import Timeline

log = logging.getLogger("hoodoo.services")

UpgradeProgress = Callable[[int, int], None]
"""Told how many files of the timeline are done, and of how many."""

_NEW = TableVersion.NINE


@dataclass(frozen=True, slots=True)
class UpgradeResult:
    """What an upgrade did, or would do."""

    from_version: int
    to_version: int
    is_done: bool
    """Whether anything was changed: not in a dry run, nor if there was nothing to do."""
    changes: tuple[PropertyChange, ...] = ()
    instants: int = 0
    """Instants of the active timeline that are written anew."""
    archives: int = 0
    """Files of the archived timeline that are."""
    rebuilt: tuple[str, ...] = ()
    """Partitions of the metadata table that are built anew."""
    dropped: tuple[str, ...] = ()
    """Those that are not."""
    pending: tuple[str, ...] = ()
    """Instants that stay pending: plans to be run, dead writes to be rolled back."""


def upgrade(
    ref: TableRef,
    *,
    dry_run: bool = False,
    progress: UpgradeProgress | None = None,
    engine: Engine | None = None,
) -> UpgradeResult:
    """Bring a table to version 9, or finish what was cut off.

    Raises `WriterAlive`, `UnsupportedFeature`, `TimelineError`, `TableChanged`, `LockTimeout`; then
    the table is of its old version, and whole.
    Order: lock; facts; decision; note; metadata table out of the properties, then deleted; history,
    then each file of the timeline, beside the old ones; properties replaced by condition; old files
    deleted; lock given back; metadata table built; note deleted, under the lock.
    Crash: before the properties are replaced: the old version, with files that nobody looks at.
    After that: version 9, with old files that nobody looks at, and without a metadata table.
    Upgrading again goes on.
    """
    if dry_run:
        return _look(ref.reopen_unchecked())
    probe_conditions(ref.env.storage)
    with hold_lock(ref, "upgrade") as lock:
        read_properties(ref.env)  # whoever died while replacing them left a backup
        ref = ref.reopen_unchecked()
        plan, may_land_late = _look(ref), False
        if ref.properties.version is not _NEW:
            may_land_late = _run(ref, lock, plan.rebuilt, progress or _ignore)
        note = read_note(ref.env)
        if note is None:
            return plan
        _remove_old(ref, lock, note)
    if may_land_late and note.partitions:  # the new files have the names of old ones
        log.info("upgrade_waits ms=%d reason=late-deletes", default_expiry_ms(ref))
        ref.env.clock.sleep(default_expiry_ms(ref) / 1000)
    rebuild(ref.reopen_unchecked(), engine or LocalEngine(), note.partitions)
    with hold_lock(ref, "upgrade") as lock:
        lock.ensure_publish_window()
        delete_surely(ref.env, paths.UPGRADE)
    log.info("upgraded from=%d to=%d instants=%d", plan.from_version, _NEW.value, plan.instants)
    return replace(plan, is_done=True)


def open_old(uri: str, options: Mapping[str, object] | None = None) -> TableRef:
    """The table to be upgraded; one whose version is too old or too new fails with advice."""
    try:
        return open_ref(uri, options)
    except UnsupportedVersion as error:
        raise UnsupportedFeature(_explain_version(error.version)) from None


def _explain_version(number: object) -> str:
    if isinstance(number, int) and number < TableVersion.SIX.value:
        return f"table version {number}: let Apache Hudi 0.14 or 0.15 upgrade it to version 6 first"
    if isinstance(number, int) and number < _NEW.value:
        return f"table version {number} belongs to a release in between: upgrade with Apache Hudi"
    return f"table version {number} is newer than hoodoo, which knows versions up to {_NEW.value}"


def _look(ref: TableRef) -> UpgradeResult:
    """What there is to do; fails as the upgrade would."""
    properties = ref.properties
    if properties.version is _NEW:
        note = read_note(ref.env)
        noted_partitions = set(note.partitions) if note is not None else set()
        rebuilt = tuple(sorted(noted_partitions - set(properties.metadata_partitions)))
        return UpgradeResult(_NEW.value, _NEW.value, is_done=False, rebuilt=rebuilt)
    facts = load_facts(ref)
    changes = plan_upgrade(facts)
    is_old = properties.version.timeline_layout == 1
    had = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
    rebuilt = choose_partitions(ref, changes)
    return UpgradeResult(
        properties.version.value,
        _NEW.value,
        is_done=False,
        changes=describe_changes(properties, changes),
        instants=len(facts.timeline) if is_old else 0,
        archives=len(archive_files(ref.env, properties.timeline_paths)) if is_old else 0,
        rebuilt=rebuilt,
        dropped=tuple(partition for partition in had if partition not in rebuilt),
        pending=tuple(str(instant) for instant in facts.timeline.pending),
    )


def _run(ref: TableRef, lock: Lock, rebuilt: tuple[str, ...], progress: UpgradeProgress) -> bool:
    """Make a table of version 9 of it; whether an old file may be deleted late."""
    env, is_old = ref.env, ref.properties.version.timeline_layout == 1
    etag = env.storage.read_version(paths.PROPERTIES).etag
    changes = plan_upgrade(load_facts(ref))
    files = load_old_files(ref) if is_old else []
    leave_note(env, lock, UpgradeNote(ref.properties.version.value, rebuilt))
    drops = drop_metadata_table(ref.properties)
    if drops:
        etag = _replace_properties(ref, lock, drops, etag)
    may_land_late = _delete_directory(env, lock, paths.METADATA_TABLE)
    if is_old:
        _write_timeline(ref, lock, files, progress)
        _refuse_moved(ref, files)
    _replace_properties(ref, lock, changes, etag)
    return may_land_late


def _refuse_moved(ref: TableRef, files_before: list[OldFile]) -> None:
    """A writer that does not ask for our lock would lose what it wrote meanwhile."""
    if load_old_files(ref) != files_before:
        raise TableChanged(
            f"the table at {ref.uri} was written while it was upgraded, by a writer that does not "
            "use its lock: stop all writers, and upgrade again"
        )


def _replace_properties(ref: TableRef, lock: Lock, changes: PropertyChanges, etag: str) -> str:
    """Put changed properties in the place of the version with this etag; the new etag.

    Order: lock ensured; `hoodie.properties` replaced by condition.
    """
    env = ref.env
    current = env.storage.read_version(paths.PROPERTIES)
    raw = dict(decode_properties(current.data, source=paths.PROPERTIES).raw)
    for key, value in changes.items():
        raw.pop(key, None)
        if value is not None:
            raw[key] = value
    raw[codec.CHECKSUM_KEY] = str(codec.checksum(raw))
    data = codec.serialise(raw, comment=codec.updated_at(env.clock.now_ms()))
    decode_properties(data, source=paths.PROPERTIES)  # what cannot be read is not written
    lock.ensure_publish_window()
    try:
        return replace_once(env, paths.PROPERTIES, data, if_match=etag)
    except PreconditionFailed:
        raise TableChanged(
            f"the properties of {ref.uri} were changed while it was upgraded: upgrade again"
        ) from None


# -- the new timeline ----------------------------------------------------------------------------


def _write_timeline(
    ref: TableRef, lock: Lock, files: list[OldFile], progress: UpgradeProgress
) -> None:
    """Make the new timeline what it has to be, whatever an earlier attempt left there.

    Order: history; instants, oldest first; then whatever else is there is deleted.
    """
    env = ref.env
    there = {e.path for e in env.storage.list(NEW_TIMELINE.active, recursive=True)}
    new_paths: set[str] = set()
    archives = archive_files(env, ref.properties.timeline_paths)
    total, count = len(archives) + len(files), 0
    for path, data in _build_history(ref, archives, files):
        new_paths.add(path)
        lock.ensure_publish_window()
        _write_beside(env, path, data, is_there=path in there)
    progress(count := len(archives), total)
    for path, data in _build_instants(env, files):
        new_paths.add(path)
        lock.ensure_publish_window()
        _write_beside(env, path, data, is_there=path in there)
        progress(count := count + 1, total)
    for path in sorted(there - new_paths):  # of an earlier attempt; the table has gone on since
        lock.ensure_publish_window()
        delete_surely(env, path)


def _write_beside(env: Env, path: str, data: bytes, *, is_there: bool) -> None:
    if is_there:
        if env.storage.read(path) == data:
            return
        delete_surely(env, path)
    create_once(env, path, data)


def _build_instants(env: Env, files: list[OldFile]) -> Iterator[tuple[str, bytes]]:
    completions = assign_completions(files)
    clusterings = frozenset(
        file.instant.requested_time
        for file in files
        if (file.instant.action, file.instant.state) == (Action.REPLACE_COMMIT, State.REQUESTED)
        and is_clustering_plan(env.storage.read(file.path))
    )
    for file in files:
        name = new_name(file.instant, completions, clusterings)
        data = new_content(file.instant, env.storage.read(file.path), clusterings)
        yield f"{NEW_TIMELINE.active}/{name}", data


def _build_history(
    ref: TableRef, archives: list[str], files: list[OldFile]
) -> Iterator[tuple[str, bytes]]:
    """One file for each of the old archive, then a manifest, then its number."""
    # Apache Hudi fails on a table whose timeline directory is not there; it ignores the file.
    yield f"{NEW_TIMELINE.active}/{paths.PLACEHOLDER}", b""
    timeline = Timeline.of(file.instant for file in files)
    active = {(i.requested_time, i.action.completed_as) for i in timeline.completed}
    known_keys: set[tuple[InstantTime, Action]] = set(active)
    entries: list[history.ManifestEntry] = []
    start = timeline.instants[0].requested_time if timeline.instants else None
    for archive in archives:
        new_instants = [
            each
            for each in read_archive(ref.env, archive)
            if (each.requested_time, each.action) not in known_keys
        ]
        if not new_instants:
            continue
        known_keys |= {(each.requested_time, each.action) for each in new_instants}
        data = history.encode_instants(choose_archived_completions(new_instants, start))
        name = str(
            HistoryFileName(new_instants[0].requested_time, new_instants[-1].requested_time, 0)
        )
        entries.append(history.ManifestEntry(name, len(data)))
        yield f"{NEW_TIMELINE.history}/{name}", data
    if entries:
        yield f"{NEW_TIMELINE.history}/{manifest_name(1)}", history.encode_manifest(entries)
        yield f"{NEW_TIMELINE.history}/{paths.HISTORY_VERSION}", history.encode_version(1)


# -- the old files -------------------------------------------------------------------------------


def _remove_old(ref: TableRef, lock: Lock, note: UpgradeNote) -> None:
    """Delete what an upgrade leaves behind, but for the note.

    Needs: version 9 in the properties, and the note.
    Order: the timeline, oldest first; archive; definitions of dropped indexes.
    Crash: files that nobody looks at; upgrading again goes on.
    """
    env = ref.env
    old = [
        (instant.requested_time, instant.state.rank, entry.path)
        for entry in env.storage.list(paths.META)
        if (instant := parse_old_name(entry.path.rpartition("/")[2])) is not None
    ]
    for _, _, path in sorted(old):
        lock.ensure_publish_window()
        delete_surely(env, path)
    present = load_properties(env)
    for path in _find_archive(env, f"{paths.META}/{archive_folder(Config(present.raw))}"):
        lock.ensure_publish_window()
        delete_surely(env, path)
    if not present.metadata_partitions:
        tidy_definitions(env, lock, note.partitions)


def _find_archive(env: Env, folder: str) -> list[str]:
    """Files of the archived timeline of layout 1, with their checksums; nothing else."""
    archive_paths = []
    for entry in env.storage.list(folder):
        name = entry.path.rpartition("/")[2]
        plain = name[1:].removesuffix(".crc") if name.endswith(".crc") else name
        if parse_archive_name(plain) is not None or plain == MERGE_PLAN:
            archive_paths.append(entry.path)
    return archive_paths


def _delete_directory(env: Env, lock: Lock, directory: str) -> bool:
    """Delete all files there; whether a request may land late."""
    may_land_late = False
    for entry in list(env.storage.list(directory, recursive=True)):
        lock.ensure_publish_window()
        may_land_late |= delete_surely(env, entry.path)
    return may_land_late


def _ignore(count: int, total: int) -> None:
    """Nobody looks."""


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
