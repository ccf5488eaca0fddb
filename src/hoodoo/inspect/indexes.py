"""Indexes of the metadata table for people: what is in use, what is being built, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.inspect.timeline import InstantReport, report_instant
from hoodoo.metadata_table.build import list_bases
from hoodoo.metadata_table.delta_commits import list_partition
from hoodoo.metadata_table.recorder import load_defined_columns, partitions_to_update
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.services.indexing.plan import IndexBuild, load_planned, read_builds
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
    return [_report(ref, name, builds) for name in sorted(partitions_to_update(ref.properties))]


def _load_builds(ref: TableRef) -> dict[str, tuple[Instant, IndexBuild]]:
    """The plans of what is being built, by partition; those of other engines are not known."""
    build_by_partition: dict[str, tuple[Instant, IndexBuild]] = {}
    for instant, plan in load_planned(ref, ref.load_timeline()).items():
        try:
            build_by_partition |= {build.partition: (instant, build) for build in read_builds(plan)}
        except FormatError:
            continue
    return build_by_partition


def _report(ref: TableRef, name: str, builds: dict[str, tuple[Instant, IndexBuild]]) -> IndexReport:
    files = list_partition(ref.env, name)
    groups = {file.name.file_id for file in files}
    columns: tuple[str, ...] = ()
    if name in (COLUMN_STATS, PARTITION_STATS):
        columns = load_defined_columns(ref.env, ref.properties) or ()
    state, built_groups, instant, owner = IndexState.COMPLETE, len(groups), None, None
    if name in ref.properties.metadata_partitions_inflight:
        state, built_groups = IndexState.UNPLANNED, 0
        if name in builds:
            plan, build = builds[name]
            instant = plan.requested_time
            built_groups = len(list_bases(ref.env, name, build.base_time))
            state, owner = _find_builder(ref, plan)
    return IndexReport(
        name=name,
        state=state.value,
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        file_groups=len(groups),
        built=built_groups,
        columns=columns,
        instant=instant,
        owner=owner,
    )


def _find_builder(ref: TableRef, plan: Instant) -> tuple[IndexState, str | None]:
    try:
        report: InstantReport = report_instant(ref, plan)
    except ObjectNotFound:
        return IndexState.PLANNED, None
    if report.owner is None:
        return IndexState.PLANNED, None
    return (IndexState.STOPPED, None) if report.is_dead else (IndexState.BUILDING, report.owner)
