"""What must be true of a table once its dead are rolled back and swept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiTableBuilder
from support.processes import until

import hoodoo
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.instant import State
from hoodoo.model.names import parse_instant
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.upkeep import ServiceOutcome, run_due_services
from hoodoo.storage.local import TEMPORARY, LocalStorage
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import read_metadata

LEFTOVERS = (paths.HEARTBEATS, paths.MARKERS, paths.CANCELS, paths.HOODOO_DIRECTORY)


def recover_wholly(uri: str, options: Mapping[str, object], *, within_s: float) -> float:
    """Recover until nothing is pending and nothing is left over; how many seconds that took.

    Plans whose executor was killed are run by whoever comes, as `hoodoo upkeep` does.
    """
    table, ref = hoodoo.open_table(uri, options), open_ref(uri, options)
    began = time.monotonic()

    def is_clean() -> bool:
        for done in run_due_services(ref, LocalEngine()):
            assert done.outcome is not ServiceOutcome.FAILED, done
        return not ref.load_timeline().pending and not leftovers(ref)

    try:
        until(f"recovered and swept: {uri}", is_clean, within_s=within_s, every_s=0.2)
    except AssertionError as error:
        left = [*ref.load_timeline().pending.instants, *leftovers(ref)]
        raise AssertionError(f"{error}; left: {left}; {table.recover()}") from None
    return time.monotonic() - began


def leftovers(ref: TableRef) -> list[str]:
    """Heartbeats, markers, staged contents, probes and notes that are there."""
    return [
        entry.path
        for directory in LEFTOVERS
        for entry in ref.env.storage.list(directory, recursive=True)
        if entry.path != paths.HEAD and not entry.path.startswith(f"{paths.ABORT_MARKS}/")
    ]


def check_sound(uri: str, options: Mapping[str, object]) -> list[Mapping[str, Any]]:
    """Check timeline and files, and that the wheel reads what hoodoo reads; gives the rows."""
    ref = open_ref(uri, options)
    check_timeline(ref)
    check_files(ref)
    check_temporaries(ref)
    ours = hoodoo.open_table(uri, options).to_arrow().to_pylist()
    assert sorted(ours, key=repr) == sorted(wheel_rows(uri, options, ours), key=repr)
    return ours


def check_timeline(ref: TableRef) -> None:
    """Nothing is pending, and no instant was completed twice."""
    directory = ref.properties.timeline_paths
    completed: Counter[str] = Counter()
    for entry in ref.env.storage.list(directory.active):
        instant = parse_instant(entry.path.rpartition("/")[2], layout=directory.layout)
        if instant is not None and instant.is_completed:
            completed[instant.requested_time] += 1
    assert set(completed.values()) <= {1}, completed
    assert not ref.load_timeline().pending.instants
    assert not leftovers(ref)


def check_files(ref: TableRef) -> None:
    """The data files are those that commits name: none is astray, only cleans take some away."""
    named, cleaned = set(), set()
    for metadata in load_all_metadata(ref):
        if isinstance(metadata, CommitMetadata):
            named.update(stat.path for _, stat in metadata.stats())
        elif isinstance(metadata, CleanMetadata):
            for partition, each in metadata.partition_metadata.items():
                cleaned.update(paths.join(partition, name) for name in each.success_delete_files)
    there = {file.path for file in DirectoryLister(ref.env, ref.properties.keys).files()}
    missing = named - there - cleaned
    assert there <= named, f"astray: {there - named}"
    assert not missing, f"missing: {missing}"
    assert not there & cleaned, f"back again: {there & cleaned}"


def load_all_metadata(ref: TableRef) -> Iterator[object]:
    """What each completed instant says, archived ones too."""
    where = ref.properties.timeline_paths
    for instant in ref.load_timeline().completed:
        yield read_metadata(ref.env, where, instant)
    for old in load_history(ref.env, where):
        yield codec.decode(old.metadata or b"", old.action, State.COMPLETED)


def check_temporaries(ref: TableRef) -> None:
    """Temporary files on disk are all of dead processes: sweeps take them after an hour."""
    if isinstance(ref.env.storage, LocalStorage):
        stale = ref.env.storage.stale_temporaries(older_than_ms=0)
        directory = Path(ref.uri.removeprefix("file://"), TEMPORARY)
        assert len(stale) == len(list(directory.glob("*")))


def wheel_rows(
    uri: str, options: Mapping[str, object], like: list[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What the `hudi` wheel reads, with the columns in the order of other rows."""
    storage = {k: str(v) for k, v in options.items() if not k.startswith("hoodie.")}
    batches = HudiTableBuilder.from_base_uri(uri).with_options(storage).build().read()
    if not batches:
        return []
    return pa.Table.from_batches(batches).select(list(like[0]) if like else []).to_pylist()
