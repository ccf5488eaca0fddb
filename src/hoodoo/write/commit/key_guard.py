"""A key exists once: keys that a write inserts, and that someone else inserted meanwhile.

Two writes that each insert a key into a file group of its own overlap nowhere, so no rule about
file groups sees them. The guard looks for the keys of the files that a write has made in what
others added since it was planned. Where nobody added anything to the same partitions it reads
nothing; where someone did, footers of base files rule most of it out. Log files are read, since
Apache Hudi can insert into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.concurrency.conflicts.rules import TRY_AGAIN, ConcurrentInstant, GroupEffect
from hoodoo.config.concurrency import KEY_GUARD
from hoodoo.errors import WriteConflict
from hoodoo.format.schema import RECORD_KEY, with_meta_fields
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.files import (
    BaseFile,
    FileGroupId,
    FileSlice,
    Visibility,
    build_file_groups,
    parse_data_file,
)
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import SliceReadTask, build_read_rule, read_base
from hoodoo.rows import arrays
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef
from hoodoo.write.index import index_of
from hoodoo.write.index.slice_keys import find_keys
from hoodoo.write.planning.assignment import Assignment

_KEYS_NAMED = 3


class SearchOutsideLock(Exception):
    """Files are to be searched: give the lock back, call `KeyGuard.search_keys`, try again."""

    def __init__(self, concurrent_instants: Sequence[ConcurrentInstant]) -> None:
        super().__init__(f"{len(concurrent_instants)} writes of others")
        self.others = concurrent_instants


@dataclass
class KeyGuard:
    """Watches the keys that one write inserts; each write of others is looked at once."""

    ref: TableRef
    assignment: Assignment
    time: InstantTime
    stats: Sequence[WriteStat]
    engine: Engine
    _known_times: set[InstantTime] = field(default_factory=set)
    _looks_outside: int = 2

    def refuse_collisions(self, concurrent_instants: Sequence[ConcurrentInstant]) -> None:
        """Fail if a key that this write inserts is in a file that one of the others added.

        Needs: a Txn; `others` are all that were completed since this write was planned. Raises
        `WriteConflict`, and `SearchOutsideLock` to have the search done without the lock, twice at
        most.
        """
        places = self._partitions_to_check()
        unseen = [
            other
            for other in concurrent_instants
            if other.instant.is_completed
            and other.time not in self._known_times
            and any(places is None or file.partition in places for file in other.data_files)
        ]
        if unseen and self._looks_outside:
            self._looks_outside -= 1
            raise SearchOutsideLock(unseen)
        self.search_keys(unseen)

    def search_keys(self, concurrent_instants: Sequence[ConcurrentInstant]) -> None:
        """Look for this write's new keys in what these others added. Raises `WriteConflict`."""
        keys = self._find_collisions(concurrent_instants)
        if keys:
            examples = ", ".join(map(repr, keys[:_KEYS_NAMED]))
            more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
            raise WriteConflict(
                f"write {self.time} inserts keys that others inserted meanwhile: {examples}{more}. "
                f"Nothing of it is visible: {TRY_AGAIN}",
                instant=self.time,
                conflicting_instants=tuple(
                    other.time for other in concurrent_instants if other.data_files
                ),
            )
        self._known_times.update(other.time for other in concurrent_instants)

    def _find_collisions(self, concurrent_instants: Sequence[ConcurrentInstant]) -> list[str]:
        mine = self._inserted_files()
        visibility = _visibility(concurrent_instants)
        tasks = [
            _Overlap(self._slice_read(slice_, visibility), tuple(near))
            for slice_ in added_slices(concurrent_instants)
            if (
                near := _files_to_compare(
                    mine, slice_.group.partition, is_global=index_of(self.ref).is_global
                )
            )
        ]
        collisions = self.engine.map(find_overlap, tasks)
        return sorted({key for keys in collisions for key in keys.to_pylist()})

    def _partitions_to_check(self) -> set[PartitionPath] | None:
        """Where a second row of a key would be one too many; None is everywhere."""
        inserted_files = self._inserted_files()
        if index_of(self.ref).is_global and inserted_files:
            return None
        return set(inserted_files)

    def _inserted_files(self) -> Mapping[PartitionPath, list[_InsertedFile]]:
        """The base files with new keys, if the write promises to insert each key once."""
        if not _promises(self.ref, self.assignment.operation):
            return {}
        before = {slice_.group: slice_ for slice_ in self.assignment.snapshot.slices()}
        files: dict[PartitionPath, list[_InsertedFile]] = {}
        for stat in self.stats:
            place, name = stat.partition_path, stat.file_name
            if not stat.num_inserts or stat.is_log or place is None or not name or not stat.file_id:
                continue
            file = parse_data_file(place, name, stat.file_size_in_bytes)
            assert isinstance(file, BaseFile)
            old = before.get(FileGroupId(place, stat.file_id))
            read = (
                self._slice_read(old, self.assignment.snapshot.visibility)
                if old is not None
                else None
            )
            files.setdefault(place, []).append(_InsertedFile(file, read))
        return files

    def _slice_read(self, slice_: FileSlice, visibility: Visibility) -> SliceReadTask:
        rule = build_read_rule(self.ref.properties, with_meta_fields(pa.schema([])), (RECORD_KEY,))
        return SliceReadTask(self.ref.env, slice_, rule, visibility)


@dataclass(frozen=True, slots=True)
class _InsertedFile:
    """A base file of this write with new keys, and the slice whose keys are not new."""

    file: BaseFile
    before: SliceReadTask | None


@dataclass(frozen=True, slots=True)
class _Overlap:
    """A slice that others added, and files of mine that may have the same keys."""

    theirs: SliceReadTask
    mine: tuple[_InsertedFile, ...]


def find_overlap(task: _Overlap) -> pa.Array:
    """Keys that are new in both: what engines run."""
    overlaps = [pa.array([], pa.string())]
    for insertion in task.mine:
        both = find_keys(task.theirs, _read_file_keys(task.theirs, insertion.file))
        if len(both) and insertion.before is not None:
            keys_before = find_keys(insertion.before, both)
            both = both.filter(pc.invert(pc.is_in(both, value_set=keys_before)))
        overlaps.append(both)
    return pa.concat_arrays(overlaps)


def _read_file_keys(like: SliceReadTask, file: BaseFile) -> pa.Array:
    rows = read_base(like.env, file, pa.schema([(RECORD_KEY, pa.string())]))
    return arrays.one_array(rows.column(RECORD_KEY))


def _files_to_compare(
    mine: Mapping[PartitionPath, list[_InsertedFile]], place: PartitionPath, *, is_global: bool
) -> list[_InsertedFile]:
    if is_global:
        return [each for files in mine.values() for each in files]
    return mine.get(place, [])


def _promises(ref: TableRef, operation: OperationType) -> bool:
    """Whether a write promises one row a key; two writes of a bucket conflict as it is."""
    if operation is not OperationType.UPSERT or not ref.config.get(KEY_GUARD):
        return False
    return index_of(ref).buckets is None


def added_slices(concurrent_instants: Sequence[ConcurrentInstant]) -> list[FileSlice]:
    """What others added, as the newest slice of each file group that is still in the table.

    A newer base file has the keys of what it was made from, so no older file need be read; those
    may have been cleaned, as may the files of groups that were replaced.
    """
    completed_instants = [other for other in concurrent_instants if other.instant.is_completed]
    replaced_groups = {
        group
        for other in completed_instants
        for group, how in other.group_effects.items()
        if how is GroupEffect.REPLACE
    }
    files = [file for other in completed_instants for file in other.data_files]
    groups = build_file_groups(files, _visibility(completed_instants), by_completion=True)
    return [group.latest for group in groups if group.id not in replaced_groups]


def _visibility(concurrent_instants: Sequence[ConcurrentInstant]) -> Visibility:
    return Visibility(
        {other.time: other.instant.completion_or_requested_time for other in concurrent_instants}
    )
