"""Indexes of the metadata table for people: what is in use, what is being built, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hoodoo.errors import FormatError, NotFound
from hoodoo.inspect.timeline import InstantReport, report_instant
from hoodoo.metadata.build import list_bases
from hoodoo.metadata.delta_commits import list_partition
from hoodoo.metadata.recorder import load_defined_columns, recorded_partitions
from hoodoo.model.index_build import IndexBuild, read_builds
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.services.index_schedule import load_planned
from hoodoo.table.ref import TableRef


class IndexState(Enum):
    """How far an index is."""

    COMPLETE = "complete"
    PLANNED = "planned"
    """Writes keep it; nobody has begun to build it."""
    BUILDING = "building"
    STOPPED = "builder died"
    UNPLANNED = "no plan"
    """Planning it was cut off: planning it again mends that."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One partition of the metadata table."""

    name: str
    state: str
    files: int
    size_bytes: int
    file_groups: int
    built: int
    """Of how many file groups the base file is made."""
    columns: tuple[str, ...]
    """The columns that have statistics."""
    instant: InstantTime | None = None
    """The plan by which it is built."""
    owner: str | None = None
    """Who builds it."""


def report_indexes(ref: TableRef) -> list[IndexReport]:
    """The indexes of a table, those that are being built included, by name."""
    ref = ref.reopen()
    builds = _load_builds(ref)
    return [_report(ref, name, builds) for name in sorted(recorded_partitions(ref.properties))]


def _load_builds(ref: TableRef) -> dict[str, tuple[Instant, IndexBuild]]:
    """The plans of what is being built, by partition; those of other engines are not known."""
    found: dict[str, tuple[Instant, IndexBuild]] = {}
    for instant, plan in load_planned(ref, ref.load_timeline()).items():
        try:
            found |= {build.partition: (instant, build) for build in read_builds(plan)}
        except FormatError:
            continue
    return found


def _report(ref: TableRef, name: str, builds: dict[str, tuple[Instant, IndexBuild]]) -> IndexReport:
    files = list_partition(ref.env, name)
    groups = {file.name.file_id for file in files}
    columns: tuple[str, ...] = ()
    if name in (COLUMN_STATS, PARTITION_STATS):
        columns = load_defined_columns(ref.env, ref.properties) or ()
    state, built, instant, owner = IndexState.COMPLETE, len(groups), None, None
    if name in ref.properties.metadata_partitions_inflight:
        state, built = IndexState.UNPLANNED, 0
        if name in builds:
            plan, build = builds[name]
            instant = plan.requested_time
            built = len(list_bases(ref.env, name, build.base_time))
            state, owner = _find_builder(ref, plan)
    return IndexReport(
        name=name,
        state=state.value,
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        file_groups=len(groups),
        built=built,
        columns=columns,
        instant=instant,
        owner=owner,
    )


def _find_builder(ref: TableRef, plan: Instant) -> tuple[IndexState, str | None]:
    try:
        found: InstantReport = report_instant(ref, plan)
    except NotFound:
        return IndexState.PLANNED, None
    if found.owner is None:
        return IndexState.PLANNED, None
    return (IndexState.STOPPED, None) if found.is_dead else (IndexState.BUILDING, found.owner)
