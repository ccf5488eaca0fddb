"""Incremental reads: the rows that were written between two points of completion time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError, UnsupportedFeature
from hoodoo.format.schema import COMMIT_TIME
from hoodoo.model.files import FileGroupId, PartitionPredicate, all_partitions
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.model.predicate import All, In, Predicate
from hoodoo.read.change_feed.window import (
    Window,
    list_files,
    load_window,
    refuse_cleaned,
    resolve_end_schema,
    take_window_snapshot,
)
from hoodoo.read.scan import ScanSelection, build_scan_rule
from hoodoo.read.snapshot import partition_pruner
from hoodoo.rows.filter import expression, to_predicate
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef

Condition: TypeAlias = "Predicate | pc.Expression"


def read_changes(
    ref: TableRef,
    engine: Engine,
    *,
    since: str,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
) -> pa.Table:
    """Rows inserted or updated in a window, each in its version at the window's end."""
    selection = select_changes(ref, since=since, until=until, columns=columns, filter=filter)
    return selection.read(engine)


def select_changes(
    ref: TableRef,
    *,
    since: str,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
) -> ScanSelection:
    """The rows inserted or updated in the window, to be read.

    Bounds are instants (then: when they completed) or moments on the axis of completion times;
    `since` is excluded, `until` included. Deleted rows are not told: `read.change_feed.feed` does.
    """
    window = open_window(ref, since=since, until=until, columns=columns)
    schema = resolve_end_schema(window)
    condition = None if filter is None else to_predicate(filter, schema)
    if window.after is None:
        return select_end(window, schema, columns, condition)
    touched_groups = choose_touched(window, window.written, schema, condition)
    files = list_files(window, keep_partitions(touched_groups))
    snapshot = take_window_snapshot(window, files, window.last, schema)
    refuse_cleaned(window, files, snapshot, touched_groups)
    rule = build_scan_rule(
        snapshot, columns=columns, filter=_add_times(condition, window.times, schema)
    )
    slices = tuple(one for one in snapshot.slices() if one.group in touched_groups)
    return ScanSelection(snapshot, rule, slices)


def open_window(
    ref: TableRef, *, since: str, until: str | None, columns: Sequence[str] | None
) -> Window:
    """The window that a caller asks for; an error if the table, or the call, allows none."""
    if isinstance(columns, str):
        raise InputError("columns is a list of names, not a text")
    if not ref.properties.populates_meta_fields:
        raise UnsupportedFeature("a table without meta fields does not tell which rows changed")
    return load_window(ref, since=since, until=until)


def select_end(
    window: Window, schema: pa.Schema, columns: Sequence[str] | None, condition: Condition | None
) -> ScanSelection:
    """All rows that the table has at the window's end."""
    files = list_files(window, prune_partitions(window.ref, schema, condition))
    snapshot = take_window_snapshot(window, files, window.last, schema)
    refuse_cleaned(window, files, snapshot, None)
    rule = build_scan_rule(snapshot, columns=columns, filter=condition)
    return ScanSelection(snapshot, rule, tuple(snapshot.slices()))


def choose_touched(
    window: Window, groups: frozenset[FileGroupId], schema: pa.Schema, condition: Condition | None
) -> frozenset[FileGroupId]:
    """Those of the groups whose partition may have rows for which a condition is true."""
    keep = prune_partitions(window.ref, schema, condition)
    partitions = {group.partition for group in groups}
    matching_partitions = {partition for partition in partitions if keep(partition, whole=True)}
    return frozenset(group for group in groups if group.partition in matching_partitions)


def prune_partitions(
    ref: TableRef, schema: pa.Schema, condition: Condition | None
) -> PartitionPredicate:
    """Leaves out partitions whose path says that no row of theirs can match."""
    if condition is None or isinstance(condition, pc.Expression):
        return all_partitions
    return partition_pruner(condition, ref.properties.keys, schema)


def keep_partitions(groups: frozenset[FileGroupId]) -> PartitionPredicate:
    """Keeps the partitions of these groups."""
    partitions = {group.partition for group in groups}
    leading = {part for partition in partitions for part in (partition, *_leading_parts(partition))}

    def keep(path: PartitionPath, *, whole: bool) -> bool:
        return path in (partitions if whole else leading)

    return keep


def _leading_parts(partition: PartitionPath) -> list[PartitionPath]:
    segments = partition.split("/")
    return [PartitionPath("/".join(segments[:count])) for count in range(1, len(segments))]


def _add_times(
    condition: Condition | None, times: frozenset[InstantTime], schema: pa.Schema
) -> Condition:
    time_condition = In(COMMIT_TIME, tuple(sorted(times)))
    if condition is None:
        return time_condition
    if isinstance(condition, pc.Expression):
        return expression(time_condition, schema) & condition
    return All((condition, time_condition))
