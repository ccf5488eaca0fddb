"""Writing the archived timeline: files of instants, then the manifest that names them.

A manifest, once it is there, is never changed: the next version is made by whoever creates the next
manifest. `_version_` tells which is the newest, and is replaced by condition, so that a request
which lands late cannot take it back. Files that no manifest names do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodoo.concurrency.transactions.transaction import Txn
from hoodoo.errors import (
    FormatError,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    TimelineError,
)
from hoodoo.format.timeline import history
from hoodoo.format.timeline.history import ArchivedInstant, ManifestEntry
from hoodoo.model.names import HistoryFileName, manifest_name, parse_history_file, parse_manifest
from hoodoo.model.paths import HISTORY_VERSION, TimelinePaths
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once

log = logging.getLogger("hoodoo.services")

_LAYERS = 9
"""The layer is one digit of a file's name."""


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """How the archived timeline is kept small."""

    batch: int = 10
    """So many files of a layer become one of the next."""
    most_bytes: int = 1000 * 1024 * 1024
    """Of files that are merged."""
    versions: int = 3
    """So many old manifests stay, for those who are reading them."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The newest version: its number, its files, and the etag of `_version_`."""

    number: int
    entries: tuple[ManifestEntry, ...]
    etag: str | None


def add_to_history(txn: Txn, instants: Sequence[ArchivedInstant], rules: HistoryRules) -> None:
    """Put instants into the archived timeline; they are there for all readers when this returns.

    Needs: a Txn.
    Order: file of instants; next manifest; `_version_`; then layers merged the same way, if due;
    versions that nobody needs any more deleted.
    Crash: a file that no manifest names, or a manifest that the next one to come here adopts.
    """
    snapshot = _load_newest(txn)
    first, last = instants[0].requested_time, instants[-1].requested_time
    entry = _write_file(txn, HistoryFileName(first, last, 0), instants)
    snapshot = _commit(txn, snapshot, (*_without(snapshot, entry.file_name), entry))
    merge_count = 0
    while (step := _merge_step(txn, snapshot, rules)) is not None:
        snapshot, merge_count = step, merge_count + 1
    _drop_versions(txn, keep=rules.versions + merge_count)


def _merge_step(txn: Txn, snapshot: _Snapshot, rules: HistoryRules) -> _Snapshot | None:
    """Merge the oldest files of the lowest layer that is full; None if none is."""
    for layer in range(_LAYERS):
        merge_entries = choose_merge(snapshot.entries, layer, rules)
        if len(merge_entries) > 1:
            break
    else:
        return None
    instants_by_key: dict[tuple[str, str], ArchivedInstant] = {}
    for entry in merge_entries:
        for instant in history.decode_instants(txn.env.storage.read(_path(txn, entry.file_name))):
            instants_by_key[instant.requested_time, instant.action.value] = instant
    names = [name for entry in merge_entries if (name := parse_history_file(entry.file_name))]
    name = HistoryFileName(min(n.first for n in names), max(n.last for n in names), layer + 1)
    entry = _write_file(txn, name, instants_by_key.values())
    merged_names = {each.file_name for each in merge_entries}
    other_entries = tuple(each for each in snapshot.entries if each.file_name not in merged_names)
    return _commit(txn, snapshot, (*other_entries, entry))


def choose_merge(
    entries: Iterable[ManifestEntry], layer: int, rules: HistoryRules
) -> list[ManifestEntry]:
    """The oldest files of a layer that is full, in order, together not much over the limit."""
    candidates = [
        (name.first, name.last, entry)
        for entry in entries
        if (name := parse_history_file(entry.file_name)) and name.layer == layer
    ]
    if len(candidates) < rules.batch:
        return []
    merge_entries: list[ManifestEntry] = []
    size_bytes = 0
    for _, _, entry in sorted(candidates, key=lambda each: each[:2]):
        merge_entries.append(entry)
        size_bytes += entry.size_bytes
        if len(merge_entries) == rules.batch:
            break
        if size_bytes > rules.most_bytes:
            if len(merge_entries) > 1:
                break
            merge_entries, size_bytes = [], 0  # one that is large enough stays as it is
    return merge_entries


# -- versions -----------------------------------------------------------------------------------


def _load_newest(txn: Txn) -> _Snapshot:
    """The newest version. One whose maker died before it told is made known first."""
    env, path = txn.env, _path(txn, HISTORY_VERSION)
    number, etag = 0, None
    try:
        version = env.storage.read_version(path)
    except ObjectNotFound:
        pass
    else:
        etag = version.etag
        try:
            number = history.decode_version(version.data)
        except FormatError as error:
            log.warning("bad_history_version path=%s error=%s", path, error)
    newest = max([number, *_manifest_numbers(env, txn.timeline_paths)])
    if newest == 0:
        return _Snapshot(0, (), etag)
    entries = history.decode_manifest(env.storage.read(_path(txn, manifest_name(newest))))
    if newest != number:
        log.warning("adopting_manifest number=%d", newest)
        etag = _tell_version(txn, newest, etag)
    return _Snapshot(newest, entries, etag)


def _commit(txn: Txn, snapshot: _Snapshot, entries: tuple[ManifestEntry, ...]) -> _Snapshot:
    """Make the next version, if nobody else has."""
    txn.fence.ensure_publish_window()
    number = snapshot.number + 1
    path = _path(txn, manifest_name(number))
    try:
        create_once(txn.env, path, history.encode_manifest(entries))
    except ObjectExists:
        raise _make_error(path) from None
    return _Snapshot(number, entries, _tell_version(txn, number, snapshot.etag))


def _tell_version(txn: Txn, number: int, etag: str | None) -> str:
    path, data = _path(txn, HISTORY_VERSION), history.encode_version(number)
    try:
        if etag is None:
            return create_once(txn.env, path, data)
        return replace_once(txn.env, path, data, if_match=etag)
    except (ObjectExists, PreconditionFailed):
        raise _make_error(path) from None


def _make_error(path: str) -> TimelineError:
    return TimelineError(f"{path} was changed meanwhile: someone else archives, without the lock")


def _drop_versions(txn: Txn, *, keep: int) -> None:
    """Delete the files that only old manifests name, then those manifests.

    Files that no manifest ever named are left: their maker may be about to.
    """
    env, numbers = txn.env, sorted(_manifest_numbers(txn.env, txn.timeline_paths))
    names = {
        number: {entry.file_name for entry in _read_manifest(txn, number)} for number in numbers
    }
    retained_numbers = numbers[-keep:]
    live = set().union(*(names[number] for number in retained_numbers))
    for number in numbers[:-keep]:
        for name in sorted(names[number] - live):
            delete_surely(env, _path(txn, name))
        delete_surely(env, _path(txn, manifest_name(number)))


def _read_manifest(txn: Txn, number: int) -> tuple[ManifestEntry, ...]:
    return history.decode_manifest(txn.env.storage.read(_path(txn, manifest_name(number))))


def _manifest_numbers(env: Env, timeline_paths: TimelinePaths) -> list[int]:
    names = (entry.path.rpartition("/")[2] for entry in env.storage.list(timeline_paths.history))
    return [number for number in map(parse_manifest, names) if number is not None]


# -- files --------------------------------------------------------------------------------------


def _write_file(
    txn: Txn, name: HistoryFileName, instants: Iterable[ArchivedInstant]
) -> ManifestEntry:
    """A file that no manifest names yet, in the place of one that someone left half-way.

    By condition: whatever that one sent cannot replace it any more.
    """
    data, path = history.encode_instants(instants), _path(txn, str(name))
    try:
        create_once(txn.env, path, data)
    except ObjectExists:
        present = txn.env.storage.read_version(path)
        if present.data != data:
            replace_once(txn.env, path, data, if_match=present.etag)
    return ManifestEntry(str(name), len(data))


def _without(snapshot: _Snapshot, file_name: str) -> tuple[ManifestEntry, ...]:
    return tuple(entry for entry in snapshot.entries if entry.file_name != file_name)


def _path(txn: Txn, name: str) -> str:
    return f"{txn.timeline_paths.history}/{name}"
