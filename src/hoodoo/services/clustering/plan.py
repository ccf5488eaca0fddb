"""Which file slices a clustering rewrites together. Pure: a snapshot in, a plan out.

Plans are those of Apache Hudi, which may execute them: file slices of one partition that together
have at most so many bytes, and into how many base files their rows go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil

from hoodoo.config.clustering import (
    CLUSTER_BEGIN_PARTITION,
    CLUSTER_END_PARTITION,
    CLUSTER_LAYOUT,
    CLUSTER_MAX_GROUP_BYTES,
    CLUSTER_MAX_GROUPS,
    CLUSTER_PARTITION_FILTER,
    CLUSTER_PARTITION_PATTERN,
    CLUSTER_PARTITIONS,
    CLUSTER_RECENT_PARTITIONS,
    CLUSTER_SINGLE_FILES,
    CLUSTER_SKIP_LATEST,
    CLUSTER_SMALL_FILE_LIMIT,
    CLUSTER_SORT_COLUMNS,
    CLUSTER_TARGET_FILE_BYTES,
    PartitionFilter,
)
from hoodoo.config.key import Config
from hoodoo.errors import ConfigError, InputError, UnsupportedFeature
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringStrategy,
    Layout,
    RowOrder,
    SliceInfo,
)
from hoodoo.read.snapshot import Snapshot
from hoodoo.recovery.strays import whole_path
from hoodoo.services.clustering.row_order import MOST_COLUMNS, is_sortable
from hoodoo.table.ref import TableRef
from hoodoo.write.index import index_of

EXECUTION = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""What Apache Hudi is to execute a plan by; it takes the columns from the plan, not the layout."""

_HOUR_MS = 3_600_000
_MIB = 1024 * 1024


def plan_clustering(
    snapshot: Snapshot,
    order: RowOrder,
    *,
    busy: Collection[FileGroupId] = (),
    ordered_by: Collection[InstantTime] = (),
    policy: Mapping[str, str] | None = None,
    now_ms: int = 0,
) -> ClusteringPlan | None:
    """A plan to cluster a table; None if that would gain nothing.

    `busy`: file groups that others are about to change. `ordered_by`: clusterings whose files have
    this order already. `policy` goes into the plan as it is.
    """
    ref, config = snapshot.ref, snapshot.ref.config
    refuse_buckets(ref)
    check_order(snapshot, order)
    slices: dict[PartitionPath, list[FileSlice]] = {}
    for slice_ in snapshot.slices():
        slices.setdefault(slice_.group.partition, []).append(slice_)
    groups: list[ClusteringGroup] = []
    for partition in choose_partitions(slices, config, now_ms=now_ms):
        candidates = [each for each in slices[partition] if _is_small(each, config)]
        free = [each for each in candidates if each.group not in busy]
        for together in _divide(free, config.get(CLUSTER_MAX_GROUP_BYTES)):
            if _gains(together, order, config, ordered_by):
                groups.append(_describe_group(ref, together))
    if not groups:
        return None
    return ClusteringPlan(
        input_groups=tuple(groups[: config.get(CLUSTER_MAX_GROUPS)]),
        strategy=ClusteringStrategy(
            strategy_class_name=EXECUTION, strategy_params=_describe_order(order)
        ),
        extra_metadata=dict(policy or {}),
        preserve_hoodie_metadata=True,
    )


def read_order(plan: ClusteringPlan, config: Config) -> RowOrder:
    """The order that a plan asks for; plans of Apache Hudi leave the layout to the executor."""
    strategy = plan.strategy
    params = (strategy.strategy_params if strategy else None) or {}
    columns = params.get(CLUSTER_SORT_COLUMNS.name)
    layout = params.get(CLUSTER_LAYOUT.name)
    return RowOrder(
        CLUSTER_SORT_COLUMNS.read(columns) if columns else (),
        CLUSTER_LAYOUT.read(layout) if layout else config.get(CLUSTER_LAYOUT),
    )


def refuse_buckets(ref: TableRef) -> None:
    """Fail on tables whose file groups are buckets: rows must stay in the bucket of their key."""
    if index_of(ref).buckets is not None:
        raise UnsupportedFeature(
            "a table with a bucket index is not clustered: its rows would leave their buckets. "
            "Compaction keeps its files in order"
        )


def check_order(snapshot: Snapshot, order: RowOrder) -> None:
    """Fail if rows of the table cannot be ordered so. Raises `InputError`."""
    schema = without_meta_fields(snapshot.schema)
    for name in order.columns:
        if name not in schema.names:
            raise InputError(f"order_by: unknown column {name!r}; there are {schema.names}")
        if not is_sortable(schema.field(name).type):
            raise InputError(
                f"order_by: rows cannot be ordered by {name!r}, which is {schema.field(name).type}"
            )
    if len(set(order.columns)) < len(order.columns):
        raise InputError(f"order_by: a column is named repeatedly: {', '.join(order.columns)}")
    if order.layout is not Layout.LINEAR and len(order.columns) > MOST_COLUMNS:
        raise InputError(f"order_by: {order.layout.value} takes at most {MOST_COLUMNS} columns")


# -- partitions ---------------------------------------------------------------------------------


def choose_partitions(
    partitions: Iterable[PartitionPath], config: Config, *, now_ms: int
) -> list[PartitionPath]:
    """The partitions that the settings ask for, by name; the last ones first, if it is by days."""
    matches = sorted(_match_partitions(partitions, config))
    match config.get(CLUSTER_PARTITION_FILTER):
        case PartitionFilter.RECENT_DAYS:
            skip = config.get(CLUSTER_SKIP_LATEST)
            return matches[::-1][skip : skip + config.get(CLUSTER_RECENT_PARTITIONS)]
        case PartitionFilter.SELECTED_PARTITIONS:
            begin, end = config.get(CLUSTER_BEGIN_PARTITION), config.get(CLUSTER_END_PARTITION)
            return [each for each in matches if (begin or "") <= each and (not end or each <= end)]
        case PartitionFilter.DAY_ROLLING:
            return matches[now_ms // _HOUR_MS % 24 :: 24]
        case _:
            return matches


def _match_partitions(
    partitions: Iterable[PartitionPath], config: Config
) -> Iterator[PartitionPath]:
    names, pattern = config.get(CLUSTER_PARTITIONS), config.get(CLUSTER_PARTITION_PATTERN)
    try:
        expression = re.compile(pattern or "")
    except re.error as error:
        key = CLUSTER_PARTITION_PATTERN.name
        raise ConfigError(key=key, value=pattern or "", reason=str(error)) from None
    for partition in partitions:
        if names and partition not in names:
            continue
        if pattern is None or expression.fullmatch(partition):
            yield partition


# -- slices -------------------------------------------------------------------------------------


def _is_small(slice_: FileSlice, config: Config) -> bool:
    """Log files do not count: they are small beside what they may become."""
    size = slice_.base.size_bytes if slice_.base else 0
    return size < config.get(CLUSTER_SMALL_FILE_LIMIT)


def _divide(slices: Iterable[FileSlice], max_bytes: int) -> Iterator[list[FileSlice]]:
    """Slices by size, the largest first, as many together as the limit allows."""
    together: list[FileSlice] = []
    total = 0
    for slice_ in sorted(slices, key=lambda each: (-each.size_bytes, each.group.file_id)):
        if together and total + slice_.size_bytes > max_bytes:
            yield together
            together, total = [], 0
        together.append(slice_)
        total += slice_.size_bytes
    if together:
        yield together


def _gains(
    slices: Sequence[FileSlice],
    order: RowOrder,
    config: Config,
    ordered_by: Collection[InstantTime],
) -> bool:
    """Whether it is worth rewriting these slices together.

    It is if their rows get an order that they do not have, or become fewer files.
    """
    has_logs = any(slice_.logs for slice_ in slices)
    if order.columns:
        times = {slice_.base_time for slice_ in slices}
        return has_logs or len(times) > 1 or not times.issubset(ordered_by)
    if len(slices) == 1:
        return has_logs and config.get(CLUSTER_SINGLE_FILES)
    return has_logs or count_outputs(slices, config) < len(slices)


def count_outputs(slices: Iterable[FileSlice], config: Config) -> int:
    """How many base files the rows of these slices become."""
    total = sum(slice_.size_bytes for slice_ in slices)
    return max(1, ceil(total / config.get(CLUSTER_TARGET_FILE_BYTES)))


# -- the plan -----------------------------------------------------------------------------------


def _describe_group(ref: TableRef, slices: Sequence[FileSlice]) -> ClusteringGroup:
    return ClusteringGroup(
        slices=tuple(_describe_slice(ref, slice_) for slice_ in slices),
        metrics=_measure(slices),
        num_output_file_groups=count_outputs(slices, ref.config),
    )


def _describe_slice(ref: TableRef, slice_: FileSlice) -> SliceInfo:
    return SliceInfo(
        data_file_path=whole_path(ref, slice_.base.path) if slice_.base else "",
        delta_file_paths=tuple(whole_path(ref, log.path) for log in slice_.logs),
        file_id=slice_.group.file_id,
        partition_path=slice_.group.partition,
        bootstrap_file_path="",
    )


def _measure(slices: Sequence[FileSlice]) -> dict[str, float]:
    """What Apache Hudi shows of a group, in MiB."""
    logs = [log for slice_ in slices for log in slice_.logs]
    bases = sum(slice_.base.size_bytes for slice_ in slices if slice_.base)
    log_bytes = sum(log.size_bytes for log in logs)
    return {
        "TOTAL_LOG_FILES": float(len(logs)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float((bases + log_bytes) // _MIB),
        "TOTAL_IO_WRITE_MB": float(bases // _MIB),
        "TOTAL_IO_MB": float((2 * bases + log_bytes) // _MIB),
    }


def _describe_order(order: RowOrder) -> dict[str, str]:
    if not order.columns:
        return {}
    return {
        CLUSTER_SORT_COLUMNS.name: ",".join(order.columns),
        CLUSTER_LAYOUT.name: order.layout.name,
    }
