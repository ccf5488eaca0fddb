"""Another engine on the same table, as Apache Hudi is: it knows the lock, and no head.

It lists the timeline, writes its files directly, leaves heartbeats without a body, and compares
file groups with those of commits that were completed since it began. Its own rule tells it who is
dead: a heartbeat file that is old by its own clock.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from hoodoo.concurrency.locks.table_lock import hold_lock
from hoodoo.concurrency.markers import load_markers
from hoodoo.errors import ObjectNotFound
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.commit import (
    CommitMetadata,
    InstantInfo,
    OperationType,
    RollbackMetadata,
    WriteStat,
    by_partition,
)
from hoodoo.model.files import FileGroupId, FileSlice, instant_of_file
from hoodoo.model.instant import Action, Instant, InstantTime, State, next_time
from hoodoo.model.names import BaseFileName, WriteToken
from hoodoo.model.plans import RollbackPlan
from hoodoo.read.file_listing import data_files
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_commit

_WORK_S = 3.0
"""How long a job takes at most, from its first file to its commit."""
_TOKEN = WriteToken("7-7-7")
_KEY_BOUNDS = (b"hoodie_min_record_key", b"hoodie_max_record_key")


class ForeignRefused(Exception):
    """Another commit is in the way."""


@dataclass(frozen=True)
class ForeignEngine:
    """What the other engine does; each call is a job of its own."""

    ref: TableRef
    expiry_ms: int

    @property
    def env(self) -> Env:
        return self.ref.env

    def upsert(self, rows: pa.Table, *, partition: str) -> InstantTime:
        """Write rows into the one file group of a partition of a copy-on-write table.

        Raises `ForeignRefused`; then the instant stays, for whoever cleans up.
        """
        with hold_lock(self.ref, "hudi"):
            timeline = self.ref.load_timeline()
            time = self._new_time(timeline)
            instant = Instant(time, Action.COMMIT, State.REQUESTED)
            self.env.storage.put(paths.heartbeat(time), b"")
            self._put(instant, b"")
        (slice_,) = (
            each
            for each in take_snapshot(self.ref, timeline=timeline).slices()
            if each.group.partition == partition
        )
        inflight = replace(instant, state=State.INFLIGHT)
        planned_stat = WriteStat(
            file_id=slice_.group.file_id, partition_path=slice_.group.partition
        )
        self._put(inflight, codec.encode(_metadata(planned_stat)))
        stat = self._write(slice_, rows, time)
        self.env.clock.sleep(_WORK_S * self.env.ids.jitter())
        with hold_lock(self.ref, "hudi"):
            now = self.ref.load_timeline()
            self._refuse_conflicts(timeline, now, slice_.group, time)
            if now.find(time) != inflight:
                raise ForeignRefused(f"{time} is gone")
            completion_time = self._new_time(now)
            completion = replace(inflight, state=State.COMPLETED, completion_time=completion_time)
            self._put(completion, codec.encode(_metadata(stat)))
        for entry in list(self.env.storage.list(paths.marker_directory(time), recursive=True)):
            self.env.storage.delete(entry.path)
        self.env.storage.delete(paths.heartbeat(time))
        return time

    def roll_back_dead(self) -> list[InstantTime]:
        """Roll back, under the lock, every write whose heartbeat is old by this engine's clock."""
        with hold_lock(self.ref, "hudi"):
            timeline = self.ref.load_timeline()
            dead = [
                instant
                for instant in timeline.pending
                if instant.action in (Action.COMMIT, Action.DELTA_COMMIT) and self._is_old(instant)
            ]
            for instant in dead:
                self._roll_back(instant, self.request_rollback(instant))
        return [instant.requested_time for instant in dead]

    def request_rollback(self, target: Instant) -> InstantTime:
        """Put a rollback on the timeline, and no more. Needs the lock."""
        time = self._new_time(self.ref.load_timeline())
        info = InstantInfo(commit_time=target.requested_time, action=target.action.value)
        plan = codec.encode(RollbackPlan(instant_to_rollback=info))
        self._put(Instant(time, Action.ROLLBACK, State.REQUESTED), plan)
        return time

    def _roll_back(self, target: Instant, rollback: InstantTime) -> None:
        storage, time = self.env.storage, target.requested_time
        self._put(Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")
        for path in self._files_of(time):
            storage.delete(path)
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete(
                instant_path(self.ref.properties.timeline_paths, replace(target, state=state))
            )
        info = InstantInfo(commit_time=time, action=target.action.value)
        completion_time = self._new_time(self.ref.load_timeline())
        completion = Instant(rollback, Action.ROLLBACK, State.COMPLETED, completion_time)
        metadata = RollbackMetadata(
            start_rollback_time=rollback,
            time_taken_in_millis=1,
            total_files_deleted=0,
            commits_rollback=(time,),
            partition_metadata={},
            instants_rollback=(info,),
        )
        self._put(completion, codec.encode(metadata))
        for entry in list(storage.list(paths.marker_directory(time), recursive=True)):
            storage.delete(entry.path)
        storage.delete(paths.heartbeat(time))

    def _files_of(self, time: InstantTime) -> Iterator[str]:
        """By markers, and by a listing, as the two strategies of that engine do."""
        yield from sorted(load_markers(self.env, time).paths)
        for directory in self.env.storage.list_directories(""):
            for file in data_files(
                paths.PartitionPath(directory), self.env.storage.list(directory)
            ):
                if instant_of_file(file) == time:
                    yield file.path

    def _is_old(self, instant: Instant) -> bool:
        try:
            beaten_ms = self.env.storage.stat(paths.heartbeat(instant.requested_time)).modified_ms
        except ObjectNotFound:
            return True
        return self.env.clock.now_ms() - beaten_ms > self.expiry_ms

    def _refuse_conflicts(
        self, old_timeline: Timeline, now: Timeline, group: FileGroupId, mine: InstantTime
    ) -> None:
        before = {instant.requested_time for instant in old_timeline.commits}
        for other in now.commits:
            if other.requested_time in before or other.requested_time == mine:
                continue
            metadata = read_commit(self.env, self.ref.properties.timeline_paths, other)
            if group in metadata.file_groups() | metadata.replaced_file_groups():
                raise ForeignRefused(f"{other} wrote to {group}")

    def _write(self, slice_: FileSlice, rows: pa.Table, time: InstantTime) -> WriteStat:
        """The slice with these rows in it, as a new base file, announced by a marker."""
        base = slice_.base
        assert base is not None
        name = BaseFileName(slice_.group.file_id, _TOKEN, time)
        path = paths.join(slice_.group.partition, str(name))
        marker = f"{paths.marker_directory(time)}/{path}.marker.MERGE"
        self.env.storage.put(marker, b"")
        with self.env.storage.open_read(base.path) as source:
            old = pq.read_table(source)
        data = _merge(old, rows, slice_.group.partition, str(name), time)
        with self.env.storage.open_write(path) as stream:
            stream.write(data)
        return WriteStat(
            file_id=slice_.group.file_id,
            path=path,
            prev_commit=base.name.requested_time,
            partition_path=slice_.group.partition,
            num_writes=len(old) + len(rows),
            num_update_writes=len(rows),
            total_write_bytes=len(data),
            file_size_in_bytes=len(data),
        )

    def _new_time(self, timeline: Timeline) -> InstantTime:
        return next_time(self.env.clock.now_ms(), after=timeline.newest_time)

    def _put(self, instant: Instant, data: bytes) -> None:
        self.env.storage.create(instant_path(self.ref.properties.timeline_paths, instant), data)


def _metadata(stat: WriteStat) -> CommitMetadata:
    return CommitMetadata(
        partition_to_write_stats=by_partition([stat]), operation_type=OperationType.UPSERT
    )


def _merge(old: pa.Table, new: pa.Table, partition: str, name: str, time: InstantTime) -> bytes:
    rows = {row["_hoodie_record_key"]: row for row in old.to_pylist()}
    for number, row in enumerate(new.to_pylist()):
        rows[row["id"]] = {
            "_hoodie_commit_time": time,
            "_hoodie_commit_seqno": f"{time}_0_{number}",
            "_hoodie_record_key": row["id"],
            "_hoodie_partition_path": partition,
            "_hoodie_file_name": name,
            **row,
        }
    bounds = dict(zip(_KEY_BOUNDS, (min(rows).encode(), max(rows).encode()), strict=True))
    schema = old.schema.with_metadata({**(old.schema.metadata or {}), **bounds})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows.values()), schema=schema), sink)
    return sink.getvalue()
