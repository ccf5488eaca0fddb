"""Which slices a clustering plan puts together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoodoo
from hoodoo.config.key import Config
from hoodoo.errors import ConfigError, InputError, UnsupportedFeature
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import OperationType
from hoodoo.model.files import BaseFile, FileGroup, FileGroupId, FileSlice, LogFile, Visibility
from hoodoo.model.instant import Action, InstantTime, State
from hoodoo.model.names import BaseFileName, FileId, LogFileName, WriteToken
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import ClusteringPlan, Layout, RequestedReplaceMetadata, RowOrder
from hoodoo.read.snapshot import Snapshot
from hoodoo.services.clustering.plan import choose_partitions, plan_clustering, read_order
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import Timeline

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("tags", pa.list_(pa.string()))])
TIME = InstantTime("20260101000000000")
TOKEN = WriteToken("0-0-0")
NO_ORDER = RowOrder()
BY_ID = RowOrder(("id",))
MB = 1024 * 1024


@pytest.fixture(scope="module")
def ref(tmp_path_factory: pytest.TempPathFactory) -> TableRef:
    place = str(tmp_path_factory.mktemp("plan") / "t")
    hoodoo.create_table(place, schema=SCHEMA, record_key="id", partition_by="p", table_type="mor")
    return open_ref(place)


def slice_of(
    partition: str, name: str, size: int | None, logs: tuple[int, ...] = (), time: str = TIME
) -> FileSlice:
    """A slice with a base file of so many bytes, if any, and logs."""
    place, file_id = PartitionPath(partition), FileId(f"{name}-0")
    base = None
    if size is not None:
        base = BaseFile(place, BaseFileName(file_id, TOKEN, InstantTime(time)), size)
    files = tuple(
        LogFile(place, LogFileName(file_id, InstantTime(time), number, TOKEN), log_size)
        for number, log_size in enumerate(logs, 1)
    )
    return FileSlice(FileGroupId(place, file_id), InstantTime(time), base, files)


def snapshot_of(ref: TableRef, *slices: FileSlice, **settings: object) -> Snapshot:
    config = Config({f"hoodie.clustering.plan.{name}": str(v) for name, v in settings.items()})
    groups = tuple(FileGroup(each.group, (each,)) for each in slices)
    return Snapshot(replace(ref, config=config), Timeline(), Visibility({}), groups, SCHEMA)


def limits(**values: int) -> dict[str, object]:
    return {f"strategy.{name.replace('_', '.')}": value for name, value in values.items()}


def names(plan: ClusteringPlan | None) -> list[list[str]]:
    assert plan is not None
    return [[str(info.file_id)[:-2] for info in group.slices] for group in plan.input_groups]


def test_slices_of_a_partition_go_together_up_to_a_limit(ref: TableRef) -> None:
    slices = [slice_of("a", f"f{n}", n * MB) for n in (1, 2, 3, 4)] + [
        slice_of("b", "g", MB),
        slice_of("b", "h", MB),
    ]
    snapshot = snapshot_of(ref, *slices, **limits(max_bytes_per_group=7 * MB))
    plan = plan_clustering(snapshot, NO_ORDER)
    assert names(plan) == [["f4", "f3"], ["f2", "f1"], ["g", "h"]]


def test_large_files_are_left_alone(ref: TableRef) -> None:
    slices = [slice_of("a", "large", 300 * MB), slice_of("a", "x", MB), slice_of("a", "y", MB)]
    assert names(plan_clustering(snapshot_of(ref, *slices), BY_ID)) == [["x", "y"]]


def test_busy_file_groups_are_left_alone(ref: TableRef) -> None:
    slices = [slice_of("a", name, MB) for name in "xyz"]
    plan = plan_clustering(snapshot_of(ref, *slices), BY_ID, busy={slices[1].group})
    assert names(plan) == [["x", "z"]]


def test_a_plan_has_a_limited_number_of_groups(ref: TableRef) -> None:
    slices = [slice_of(f"p{n:02}", name, MB) for n in range(40) for name in "xy"]
    assert len(names(plan_clustering(snapshot_of(ref, *slices), NO_ORDER))) == 30
    two = snapshot_of(ref, *slices, **limits(max_num_groups=2))
    assert len(names(plan_clustering(two, NO_ORDER))) == 2


def test_outputs_are_as_many_as_fit_the_target_size(ref: TableRef) -> None:
    slices = [slice_of("a", name, 100 * MB) for name in "vwxyz"]
    snapshot = snapshot_of(ref, *slices, **limits(target_file_max_bytes=200 * MB))
    plan = plan_clustering(snapshot, BY_ID)
    assert plan is not None
    assert [group.num_output_file_groups for group in plan.input_groups] == [3]


def test_no_clustering_plan_without_benefit(ref: TableRef) -> None:
    alone = snapshot_of(ref, slice_of("a", "x", MB))
    assert plan_clustering(alone, NO_ORDER) is None
    assert names(plan_clustering(alone, BY_ID)) == [["x"]]
    with_logs = snapshot_of(ref, slice_of("a", "x", MB, logs=(10,)))
    assert names(plan_clustering(with_logs, NO_ORDER)) == [["x"]]
    off: dict[str, object] = {"strategy.single.group.clustering.enabled": "false"}
    alone_with_logs = snapshot_of(ref, slice_of("a", "x", MB, logs=(10,)), **off)
    assert plan_clustering(alone_with_logs, NO_ORDER) is None
    full = [slice_of("a", name, 100 * MB) for name in "xy"]
    tight = snapshot_of(ref, *full, **limits(target_file_max_bytes=100 * MB))
    assert plan_clustering(tight, NO_ORDER) is None, "two files would become two files"
    assert plan_clustering(snapshot_of(ref), BY_ID) is None


def test_what_is_in_order_is_not_ordered_again(ref: TableRef) -> None:
    slices = [slice_of("a", name, MB) for name in "xy"]
    assert plan_clustering(snapshot_of(ref, *slices), BY_ID, ordered_by={TIME}) is None
    later = slice_of("a", "z", MB, time="20260102000000000")
    plan = plan_clustering(snapshot_of(ref, *slices, later), BY_ID, ordered_by={TIME})
    assert names(plan) == [["x", "y", "z"]]
    changed = slice_of("a", "y", MB, logs=(1,))
    plan = plan_clustering(snapshot_of(ref, slices[0], changed), BY_ID, ordered_by={TIME})
    assert names(plan) == [["y", "x"]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["2026-01", "2026-02", "2026-03", "2026-04"]),
        ({"partition.filter.mode": "RECENT_DAYS"}, ["2026-04", "2026-03"]),
        (
            {
                "partition.filter.mode": "RECENT_DAYS",
                "strategy.daybased.lookback.partitions": 1,
                "strategy.daybased.skipfromlatest.partitions": 2,
            },
            ["2026-02"],
        ),
        (
            {
                "partition.filter.mode": "SELECTED_PARTITIONS",
                "strategy.cluster.begin.partition": "2026-02",
                "strategy.cluster.end.partition": "2026-03",
            },
            ["2026-02", "2026-03"],
        ),
        ({"partition.filter.mode": "DAY_ROLLING"}, ["2026-03"]),
        ({"strategy.partition.selected": "2026-04,2026-01"}, ["2026-01", "2026-04"]),
        ({"strategy.partition.regex.pattern": "2026-0[34]"}, ["2026-03", "2026-04"]),
        ({"strategy.partition.regex.pattern": "2026"}, []),
    ],
)
def test_partitions_are_chosen_by_the_settings(
    settings: dict[str, object], expected: list[str]
) -> None:
    config = Config({f"hoodie.clustering.plan.{name}": str(v) for name, v in settings.items()})
    partitions = [PartitionPath(f"2026-0{month}") for month in (3, 1, 4, 2)]
    at_two = 2 * 3_600_000 + 24 * 3_600_000
    assert choose_partitions(partitions, config, now_ms=at_two) == expected


def test_a_damaged_pattern_is_refused() -> None:
    config = Config({"hoodie.clustering.plan.strategy.partition.regex.pattern": "("})
    with pytest.raises(ConfigError, match="regex"):
        choose_partitions([PartitionPath("a")], config, now_ms=0)


@pytest.mark.parametrize("layout", Layout)
def test_a_plan_is_read_back_with_its_order_and_policy(ref: TableRef, layout: Layout) -> None:
    order = RowOrder(("id", "p"), layout)
    snapshot = snapshot_of(ref, slice_of("a", "x", MB, logs=(5, 6)), slice_of("a", "y", None, (7,)))
    plan = plan_clustering(snapshot, order, policy={"hoodoo.plan.policy": "removable"})
    requested = RequestedReplaceMetadata(
        operation_type=OperationType.CLUSTER, clustering_plan=plan, extra_metadata={}
    )
    data = codec.encode(requested)
    assert codec.decode(data, Action.CLUSTERING, State.REQUESTED) == requested
    assert plan is not None
    assert read_order(plan, Config()) == order
    assert plan.extra_metadata == {"hoodoo.plan.policy": "removable"}
    assert plan.preserve_hoodie_metadata
    with_base, only_logs = plan.input_groups[0].slices
    place = ref.uri.removeprefix("file://")
    assert with_base.data_file_path == f"{place}/a/x-0_{TOKEN}_{TIME}.parquet"
    assert len(with_base.delta_file_paths or ()) == 2
    assert only_logs.data_file_path == ""
    assert plan.file_groups() == {each.group for each in (s.latest for s in snapshot.groups)}


def test_a_plan_without_a_layout_goes_by_the_settings(ref: TableRef) -> None:
    plan = plan_clustering(snapshot_of(ref, slice_of("a", "x", MB)), BY_ID)
    assert plan is not None
    assert plan.strategy is not None
    params = {"hoodie.clustering.plan.strategy.sort.columns": "id, p"}
    theirs = replace(plan, strategy=replace(plan.strategy, strategy_params=params))
    config = Config({"hoodie.layout.optimize.strategy": "HILBERT"})
    assert read_order(theirs, config) == RowOrder(("id", "p"), Layout.HILBERT)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (RowOrder(("absent",)), "unknown column 'absent'"),
        (RowOrder(("tags",)), "cannot be ordered by 'tags'"),
        (RowOrder(("id", "id")), "named repeatedly"),
    ],
)
def test_an_order_that_rows_cannot_have_is_refused(
    ref: TableRef, order: RowOrder, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plan_clustering(snapshot_of(ref, slice_of("a", "x", MB)), order)


def test_tables_with_buckets_are_not_clustered(tmp_path: Path) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
    place = str(tmp_path / "t")
    hoodoo.create_table(place, schema=SCHEMA, record_key="id", options=options)
    ref = open_ref(place, options)
    snapshot = Snapshot(ref, Timeline(), Visibility({}), (), SCHEMA)
    with pytest.raises(UnsupportedFeature, match="bucket index"):
        plan_clustering(snapshot, NO_ORDER)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), max_size=40),
    st.integers(1, 900),
    st.integers(1, 6),
)
def test_no_slice_is_in_two_groups_and_no_group_is_too_large(
    ref: TableRef, sizes: list[tuple[str, int]], group_mb: int, groups: int
) -> None:
    slices = [slice_of(place, f"f{n}", size * MB) for n, (place, size) in enumerate(sizes)]
    settings = limits(max_bytes_per_group=group_mb * MB, max_num_groups=groups)
    plan = plan_clustering(snapshot_of(ref, *slices, **settings), BY_ID)
    by_name = {f"f{n}": (place, size) for n, (place, size) in enumerate(sizes)}
    together = names(plan) if plan else []
    chosen = [name for group in together for name in group]
    assert len(together) <= groups
    assert len(chosen) == len(set(chosen))
    for group in together:
        assert len({by_name[name][0] for name in group}) == 1
        total = sum(by_name[name][1] for name in group)
        assert len(group) == 1 or total <= group_mb
        assert all(by_name[name][1] < 300 for name in group)
    if len(together) < groups:
        assert len(chosen) == sum(size < 300 for _, size in sizes)
