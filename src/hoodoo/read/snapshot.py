"""`Snapshot`: which file slices make up the table at one moment, and their schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.errors import (
    FormatError,
    ObjectNotFound,
    TimelineError,
    UnsupportedFeature,
    add_error_source,
)
from hoodoo.format.parquet.base_file import open_parquet
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata
from hoodoo.model.files import (
    FileGroup,
    FileSlice,
    Lister,
    PartitionPredicate,
    Visibility,
    all_partitions,
)
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.keys import KeyRule
from hoodoo.model.paths import PartitionPath
from hoodoo.model.predicate import Predicate, ValueRange, may_match
from hoodoo.read.file_listing import DirectoryLister, FileFinder, visible_groups
from hoodoo.rows.filter import partition_value
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import adapt_to_reader, resolve_schema
from hoodoo.table.timeline import Timeline, parse_moment, read_metadata


@dataclass(frozen=True)
class Snapshot:
    """A consistent view: everything that `timeline` completed, and nothing else."""

    ref: TableRef
    timeline: Timeline
    visibility: Visibility
    groups: tuple[FileGroup, ...]
    schema: pa.Schema

    def slices(self) -> list[FileSlice]:
        """The newest slice of every file group, in a stable order."""
        return [group.latest for group in self.groups]


def take_snapshot(
    ref: TableRef,
    *,
    timeline: Timeline | None = None,
    as_of: str | None = None,
    ended_until: InstantTime | None = None,
    prune: Callable[[pa.Schema], PartitionPredicate] | None = None,
    lister: Lister | None = None,
) -> Snapshot:
    """The table as it is now, as of an instant, or as of the completion of one.

    `prune` tells, once the schema is known, which partitions to list. `lister` knows `timeline`.
    """
    _refuse_unreadable(ref)
    whole = timeline if timeline is not None else ref.load_timeline()
    if not whole.instants:
        _refuse_lost_timeline(ref)
    view, until = whole, None
    if as_of is not None:
        until = parse_moment(ref.env.clock, ref.properties.timeline_zone, as_of)
        view = whole.as_of(until)
        _refuse_cleaned(ref, whole, until)
    elif ended_until is not None:
        view, until = whole.completed_by(ended_until), ended_until
    visibility = view.visibility(start=whole.oldest_active_write, until=until)
    schema = resolve_schema(ref, view)
    keep = prune(schema) if prune is not None and schema is not None else all_partitions
    groups = visible_groups(ref, view, visibility, keep, lister or FileFinder(ref, whole))
    if schema is None:
        schema = _schema_of_files(ref, groups)
    return Snapshot(ref, view, visibility, groups, schema)


def partition_pruner(predicate: Predicate, keys: KeyRule, schema: pa.Schema) -> PartitionPredicate:
    """Leaves out partitions whose path says that no row of theirs can match."""

    def keep(path: PartitionPath, *, whole: bool) -> bool:
        ranges = {}
        for field, text in keys.values_in(path).items():
            if field not in schema.names:
                continue
            kind = schema.field(field).type
            if not whole and not keys.url_encode and pa.types.is_string(kind):
                continue  # a text with a slash goes on in the next directory
            is_known, value = partition_value(text, kind)
            if is_known:
                ranges[field] = ValueRange.exactly(value)
        return may_match(predicate, ranges)

    return keep


def _schema_of_files(ref: TableRef, groups: Iterable[FileGroup]) -> pa.Schema:
    for group in groups:
        base = group.latest.base
        if base is not None:
            with add_error_source(base.path), ref.env.storage.open_read(base.path) as source:
                schema = open_parquet(source).schema_arrow.remove_metadata()
            return adapt_to_reader(ref, schema)
    return adapt_to_reader(ref, pa.schema([]))


def _refuse_unreadable(ref: TableRef) -> None:
    properties = ref.properties
    if properties.base_file_format != "PARQUET":
        raise UnsupportedFeature(f"base files of format {properties.base_file_format} are not read")
    if properties.drops_partition_columns:
        raise UnsupportedFeature(
            "the table's files lack the partition columns "
            "(hoodie.datasource.write.drop.partition.columns=true)"
        )
    if properties.raw.get("hoodie.bootstrap.base.path"):
        raise UnsupportedFeature("bootstrapped tables (hoodie.bootstrap.base.path) are not read")


def _refuse_lost_timeline(ref: TableRef) -> None:
    """Data files without a single instant mean that we look for the timeline in a wrong place."""
    file = next(DirectoryLister(ref.env, ref.properties.keys).files(), None)
    if file is not None:
        raise FormatError(
            f"says that the timeline is in {ref.properties.timeline_paths.active}, "
            f"where there is none, but the table has data files such as {file.path}",
            source=paths.PROPERTIES,
        )


def _refuse_cleaned(ref: TableRef, timeline: Timeline, until: InstantTime) -> None:
    """Time travel to before what the cleaner kept would silently miss rows."""
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    if not cleans:
        return
    try:
        metadata = read_metadata(ref.env, ref.properties.timeline_paths, cleans[-1])
    except ObjectNotFound:  # archived meanwhile
        return
    if isinstance(metadata, CleanMetadata) and until < metadata.floor:
        raise TimelineError(
            f"cannot read as of {until}: clean {cleans[-1].requested_time} kept only what is "
            f"needed from {metadata.floor} on"
        )
