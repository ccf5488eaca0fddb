"""`MetadataTable`: a table's metadata table as a value: its instants, and the files of its parts.

It is a merge-on-read table of its own, in `.hoodie/metadata` of the table that it describes, with
HFiles as base files. All paths here are relative to the table, like everywhere. `entries` reads
what the files hold; nothing here needs Arrow.

A commit writes to the metadata table before it is completed, and readers must not see that before.
So blocks of log files count by the instant in their header (`valid_instants`). Base files are not
filtered: a compaction takes in nothing whose instant is pending. The order of loading matters: a
reader that loads the table's timeline first finds here all that the timeline has as completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hoodoo.config.table import table_properties
from hoodoo.errors import ConfigError, FormatError, ObjectNotFound, add_error_source
from hoodoo.format import properties as properties_codec
from hoodoo.model.files import (
    BaseFile,
    DataFile,
    FileSlice,
    LogFile,
    Visibility,
    build_file_groups,
    depends_on_history,
    instant_of_file,
    parse_data_file,
)
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import FILES, PROPERTIES, SOLO_TIME, file_group_number
from hoodoo.model.paths import METADATA_TABLE, PARTITION_METADATA, PartitionPath, join
from hoodoo.model.table import TableProperties
from hoodoo.runtime.env import Env
from hoodoo.table.timeline import Timeline, load_timeline, read_commit

# -- instants that count ------------------------------------------------------------------------


_UNDOING = (Action.ROLLBACK, Action.RESTORE)


def valid_instants(
    data: Iterable[Instant],
    metadata: Iterable[Instant],
    *,
    rolled_back: Mapping[InstantTime, Iterable[InstantTime]] | None = None,
) -> frozenset[InstantTime]:
    """The instants whose blocks count, by the timelines of the table and of its metadata table.

    `rolled_back` has, by the time of each completed rollback and restore of the table, what it
    undid: blocks of those are undone in the metadata table too, by its own rollbacks.
    """
    data = list(data)
    completed_times = {instant.requested_time for instant in data if instant.is_completed}
    unfinished_times = {instant.requested_time for instant in data} - completed_times
    valid = set(completed_times)
    for instant in metadata:
        time = instant.requested_time
        # A delta commit that the table's timeline does not know: archived, or an index's build.
        counts = instant.action is Action.DELTA_COMMIT and time not in unfinished_times
        is_own = instant.action in _UNDOING or time.startswith(SOLO_TIME)
        if instant.is_completed and (counts or is_own):
            valid.add(time)
    oldest = min(valid, default=None)
    for time, undone in (rolled_back or {}).items():
        if oldest is not None and time > oldest:
            valid.update(undone)
    return frozenset(valid)


# -- the table and its files --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The newest file slice of each file group of one partition; keys are spread over all."""

    partition: str
    slices: tuple[FileSlice, ...]


@dataclass(frozen=True)
class MetadataTable:
    """A metadata table at one moment."""

    env: Env
    properties: TableProperties
    """Its own; `timeline` in it has paths relative to the table that it is about."""
    timeline: Timeline
    """Its own."""
    valid: frozenset[InstantTime]
    """The instants that are known to count; ask `counts`."""
    unfinished_times: frozenset[InstantTime]
    """What the timeline of the table that it is about has as not completed."""
    data_commits: frozenset[InstantTime]
    """The commits that it has as completed."""

    @cached_property
    def start(self) -> InstantTime | None:
        """Requested time of the first write that is still on its timeline.

        What fills a new partition bears a time before all others, whenever it happens.
        """
        writes = self.timeline.filter(lambda i: not _is_solo(i))
        return writes.oldest_active_write or self.timeline.oldest_active_write

    def counts(self, time: InstantTime) -> bool:
        """Whether blocks of log files that this instant wrote are to be read."""
        if time in self.valid:
            return True
        # Archival has taken it from both timelines: it was completed.
        return self.start is not None and time < self.start and time not in self._pending

    @cached_property
    def _pending(self) -> frozenset[InstantTime]:
        return self.unfinished_times | {
            i.requested_time for i in self.timeline if not i.is_completed
        }

    def find_lag(self, data_timeline: Timeline) -> Instant | None:
        """A completed commit of the table that should be here, and is not; None: nothing lacks.

        Those from before the metadata table was made are in it without a commit of their own. It
        may have archived what the table's timeline still has: a commit with a savepoint, say.
        """
        recorded_times = {i.requested_time for i in self.timeline if i.is_completed}
        solo = [i.completion_or_requested_time for i in self.timeline.completed if _is_solo(i)]
        first_fill_time = min(solo) if solo and self.properties.timeline_paths.layout > 1 else None
        lacking: list[Instant] = []
        for instant in data_timeline.commits:
            time = instant.requested_time
            follows = self._first is not None and time > self._first
            if time not in recorded_times and (
                follows
                or (
                    first_fill_time is not None
                    and instant.completion_or_requested_time > first_fill_time
                )
            ):
                lacking.append(instant)
        if not lacking:
            return None
        from hoodoo.table.history import load_history  # it needs Arrow, which takes time to load

        since = min(instant.requested_time for instant in lacking)
        history = load_history(self.env, self.properties.timeline_paths, since=since)
        archived_times = {instant.requested_time for instant in history}
        return next((i for i in lacking if i.requested_time not in archived_times), None)

    def is_ahead_of(self, view: Timeline) -> bool:
        """Whether it may have something of a commit that a view of the table does not see.

        What fills a new partition has all that was completed until then.
        """
        completed_times = {i.requested_time for i in view.completed}
        if not self.data_commits <= completed_times:
            return True
        newest = max(
            (i.completion_or_requested_time for i in view.completed), default=InstantTime("")
        )
        start = view.oldest_active_write or InstantTime("")
        for instant in self.timeline.completed:
            time = instant.requested_time
            if _is_solo(instant):
                is_newer = instant.completion_or_requested_time > newest
            else:
                is_newer = instant.action is Action.DELTA_COMMIT and time >= start
            if is_newer and time not in completed_times:
                return True
        return False

    @cached_property
    def _first(self) -> InstantTime | None:
        """The first commit on its timeline that a commit of the table has made."""
        writes = (i.requested_time for i in self.timeline.commits if not _is_solo(i))
        return min(writes, default=None)

    def load_partition(self, partition: str) -> PartitionFiles:
        """The file groups of a partition: one listing. `FormatError` if files are missing."""
        directory = join(METADATA_TABLE, partition)
        files = self._list(PartitionPath(directory))
        visibility = self.timeline.visibility(start=self.start)
        by_completion = self.properties.version.slices_by_completion
        if by_completion and depends_on_history(files, visibility):
            from hoodoo.table.history import add_history  # imports Arrow, and is rarely needed

            visibility = add_history(self.env, self.properties.timeline_paths, visibility)
        groups = build_file_groups(files, visibility, by_completion=by_completion)
        slices = [group.latest for group in groups]
        if by_completion:
            slices = [_by_completion(one, visibility) for one in slices]
        slices.sort(key=lambda one: one.group.file_id)
        numbers = [file_group_number(one.group.file_id) for one in slices]
        if not numbers or numbers != list(range(len(numbers))):
            # One of them alone decides where every key is looked for.
            raise FormatError("file groups of the metadata table are missing", source=directory)
        self._refuse_missing(directory, files, slices)
        return PartitionFiles(partition, tuple(slices))

    def _list(self, directory: PartitionPath) -> list[DataFile]:
        """Data files of completed instants, and of those that are archived."""
        files = []
        pending = {i.requested_time for i in self.timeline if not i.is_completed}
        by_completion = self.properties.version.slices_by_completion
        for entry in self.env.storage.list(directory):
            name = entry.path.rpartition("/")[2]
            if name.startswith(PARTITION_METADATA) or name.endswith(".crc"):
                continue
            file = parse_data_file(directory, name, entry.size_bytes)
            # In layout 1 a log has the time of its base, which a compaction may be about to make.
            tells_writer = isinstance(file, BaseFile) or by_completion
            if file is not None and not (tells_writer and instant_of_file(file) in pending):
                files.append(file)
        return files

    def _refuse_missing(
        self, directory: str, files: Sequence[DataFile], slices: Sequence[FileSlice]
    ) -> None:
        """A lost file would be a wrong listing, so what commits wrote here must be here.

        Commits are asked only where a file group has nothing of theirs. Each of the first ones
        fills one partition, and may have made a base file beside the log that is there. What ended
        before that went with the partition, which had been there before, and was dropped.
        """
        names = {str(file.name) for file in files}
        present: dict[str, set[InstantTime]] = {}
        for file in files:
            present.setdefault(file.name.file_id, set()).add(instant_of_file(file))
        fillers = {
            instant_of_file(file) for file in files if instant_of_file(file).startswith(SOLO_TIME)
        }
        has_bases = all(one.base is not None for one in slices)
        oldest = min((one.base_time for one in slices), default=InstantTime(""))
        fill_times = [
            i.completion_or_requested_time
            for i in self.timeline.completed
            if i.requested_time in fillers
        ]
        first_fill_time = min(fill_times, default=InstantTime(""))
        for instant in self.timeline.commits:
            time = instant.requested_time
            if instant.completion_or_requested_time < max(oldest, first_fill_time):
                continue  # a compaction has taken it in, or the partition was made after it
            if _is_solo(instant) and fillers:
                is_whole = has_bases or time not in fillers
            else:
                is_whole = all(time in times for times in present.values())
            if is_whole:
                continue
            for name in self._written(instant, directory) - names:
                if not _is_superseded(instant, name, slices):
                    raise FormatError(f"missing; {instant} wrote it", source=join(directory, name))

    def _written(self, instant: Instant, directory: str) -> set[str]:
        """The names of the files that an instant wrote to a partition, unless it is archived."""
        commit = read_commit(self.env, self.properties.timeline_paths, instant)
        partition = directory.removeprefix(f"{METADATA_TABLE}/")
        stats = commit.partition_to_write_stats.get(PartitionPath(partition), ())
        return {stat.path.rpartition("/")[2] for stat in stats if stat.path}


def _is_solo(instant: Instant) -> bool:
    """Whether it fills a new partition."""
    return instant.requested_time.startswith(SOLO_TIME)


def _by_completion(one: FileSlice, visibility: Visibility) -> FileSlice:
    """The slice with its logs in the order in which their commits ended: merging depends on it."""

    def order(log: LogFile) -> tuple[str, str, int, str]:
        name = log.name
        completion_time = visibility.completion_of(name.instant_time) or name.instant_time
        return (completion_time, name.instant_time, name.version, name.token or "")

    return one._replace(logs=tuple(sorted(one.logs, key=order)))


def _is_superseded(instant: Instant, name: str, slices: Sequence[FileSlice]) -> bool:
    """Whether a file is older than the slice of its own file group: a compaction took it in."""
    file = parse_data_file(PartitionPath(""), name, 0)
    if file is None:
        return False
    moment = (
        instant.requested_time
        if isinstance(file, BaseFile)
        else instant.completion_or_requested_time
    )
    times = [one.base_time for one in slices if one.group.file_id == file.name.file_id]
    return any(moment < time for time in times)


def has_metadata_table(properties: TableProperties) -> bool:
    """Whether the table has a metadata table that lists all its files."""
    return FILES in properties.metadata_partitions


def open_metadata_table(env: Env, data_timeline: Timeline) -> MetadataTable:
    """The metadata table as it is now; `FormatError` if it cannot be read.

    Order: `data_timeline`, the whole active timeline of the table, has been loaded before.
    """
    properties = load_metadata_properties(env)
    timeline = load_timeline(env, properties.timeline_paths)
    unfinished_times = frozenset(i.requested_time for i in data_timeline if not i.is_completed)
    # What rollbacks of the table undid is not asked for: those blocks are deleted, or a command
    # block undoes them, so that it makes no difference whether they count.
    valid = valid_instants(data_timeline, timeline)
    commits = frozenset(i.requested_time for i in data_timeline.commits)
    return MetadataTable(env, properties, timeline, valid, unfinished_times, commits)


def load_metadata_properties(env: Env) -> TableProperties:
    """The metadata table's own properties, with paths relative to the table that it is about."""
    try:
        data = env.storage.read(PROPERTIES)
    except ObjectNotFound:
        raise FormatError("not found: there is no metadata table", source=PROPERTIES) from None
    with add_error_source(PROPERTIES):
        raw = properties_codec.parse(data)
        properties_codec.verify(raw)
        try:
            properties = table_properties(raw)
        except ConfigError as error:
            raise FormatError(str(error)) from None
    own = properties.timeline_paths
    below = replace(
        own, active=f"{METADATA_TABLE}/{own.active}", history=f"{METADATA_TABLE}/{own.history}"
    )
    return replace(properties, timeline_paths=below)


def find_last_compaction(timeline: Timeline) -> Instant | None:
    """The last completed compaction of a metadata table."""
    compactions = [i for i in timeline.completed if i.action.completed_as is Action.COMMIT]
    return max(compactions, key=lambda i: i.requested_time, default=None)
