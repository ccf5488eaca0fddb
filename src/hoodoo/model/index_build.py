"""What the plan of an index build says of each partition, beside what Apache Hudi knows of it.

An action that ended after `since` wrote the partition itself, unless its engine did not know of
the build yet. All that ended before is in the base files that the build makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodoo.errors import FormatError
from hoodoo.model.commit import IndexPartitionInfo
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.plan import IndexPlan

_SINCE = "hoodoo.since"
_PENDING = "hoodoo.pending"
_OPENED = "hoodoo.opened.at"
_FILE_GROUPS = "hoodoo.file.groups"


@dataclass(frozen=True, slots=True)
class IndexBuild:
    """One partition of the metadata table that is to be built."""

    partition: str
    since: InstantTime
    """When the partition was listed as in the making: the time of that decision."""
    pending: tuple[InstantTime, ...]
    """The instants that were pending then: another engine may not know of the build."""
    opened_at: InstantTime
    """The instant of the metadata table that made the file groups."""
    file_groups: int

    @property
    def base_time(self) -> InstantTime:
        """The instant of the metadata table that makes the base files: the next one."""
        return InstantTime(f"{int(self.opened_at) + 1:017d}")

    def has_seen(self, instant: Instant) -> bool:
        """Whether a completed instant had ended when the build was planned."""
        return instant.ended_at < self.since and instant.requested_time not in self.pending


def make_plan(builds: Sequence[IndexBuild], *, upto: InstantTime | None) -> IndexPlan:
    """The plan of these builds; `upto` is the last commit that has no pending one before it."""
    return IndexPlan(index_partition_infos=tuple(_describe(build, upto) for build in builds))


def read_builds(plan: IndexPlan) -> list[IndexBuild]:
    """The builds of a plan. `FormatError` if another engine made it."""
    return [_parse(info) for info in plan.index_partition_infos]


def planned_partitions(plan: IndexPlan) -> frozenset[str]:
    """The partitions of a plan, whoever made it."""
    infos = plan.index_partition_infos
    return frozenset(i.metadata_partition_path for i in infos if i.metadata_partition_path)


def find_upto(instants: Sequence[Instant]) -> InstantTime | None:
    """The last completed write before the first pending one: up to there are no holes."""
    upto = None
    for instant in sorted(instants, key=lambda each: each.requested_time):
        if not instant.action.writes_data:
            continue
        if instant.is_pending:
            break
        if instant.is_completed:
            upto = instant.requested_time
    return upto


def _describe(build: IndexBuild, upto: InstantTime | None) -> IndexPartitionInfo:
    return IndexPartitionInfo(
        metadata_partition_path=build.partition,
        index_upto_instant=upto or build.since,
        extra_metadata={
            _SINCE: build.since,
            _PENDING: ",".join(build.pending),
            _OPENED: build.opened_at,
            _FILE_GROUPS: str(build.file_groups),
        },
    )


def _parse(info: IndexPartitionInfo) -> IndexBuild:
    told = info.extra_metadata or {}
    try:
        pending = told[_PENDING]
        return IndexBuild(
            info.metadata_partition_path or "",
            InstantTime(told[_SINCE]),
            tuple(map(InstantTime, pending.split(","))) if pending else (),
            InstantTime(told[_OPENED]),
            int(told[_FILE_GROUPS]),
        )
    except (KeyError, ValueError):
        raise FormatError(
            f"the plan to build {info.metadata_partition_path} was not made by hoodoo: run it with "
            "the engine that made it, or drop the index and create it again"
        ) from None
