"""The life of a clustering: cut off, resumed, run twice, beside writes and other plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.clustered import cluster, fill, make, rows, rows_by_key, slices
from support.paused_writes import WRITTEN, pause_write

import hoodoo
from hoodoo.errors import PlanCancelled, WriteConflict
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.instant import InstantTime
from hoodoo.model.plans import Layout, RequestedReplaceMetadata, RowOrder
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.read.scan import build_scan_rule
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Item, LocalEngine, Repeatable, Result, StopSignal
from hoodoo.services.clustering.clustering import run_clustering
from hoodoo.services.clustering.plan import plan_clustering
from hoodoo.services.clustering.tasks import build_tasks
from hoodoo.table.ref import open_ref
from hoodoo.write.files.context import WriteContext

pytestmark = pytest.mark.slow

PREFER_WRITER = {
    "hoodie.write.lock.conflict.resolution.strategy": "PreferWriterConflictResolutionStrategy"
}


class Outage(Exception):
    """What stops an engine in these tests."""


class FailingEngine(LocalEngine):
    """Fails after so many items."""

    def __init__(self, items: int) -> None:
        super().__init__(threads=1)
        self._items = items

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        super().map(task, items[: self._items], stop=stop, report_count=report_count)
        raise Outage


class TwiceEngine(LocalEngine):
    """Runs every item twice, as if the first result were lost, and takes the second.

    What only reads is run once.
    """

    may_repeat_tasks = True

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        results = []
        for item in items:
            if not isinstance(item, Repeatable):
                results.append(task(item))
                continue
            for attempt in (1, 2):
                result = task(item.at_attempt(attempt))
            results.append(result)
        return results


def data_files(table: hoodoo.Table) -> set[str]:
    ref = open_ref(table.uri)
    return {file.path for file in DirectoryLister(ref.env, ref.properties.keys).files()}


@pytest.mark.parametrize("order", [{}, {"order_by": ["fare", "ts"], "layout": "zorder"}], ids=str)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_next_attempt_adopts_what_a_failed_one_finished(
    tmp_path: Path, kind: str, order: dict[str, Any]
) -> None:
    table = make(tmp_path, kind)
    fill(table)
    before, files = rows_by_key(table.to_arrow()), data_files(table)
    instant = table.schedule_clustering(**order)
    with pytest.raises(Outage):
        run_clustering(open_ref(table.uri), instant, FailingEngine(1))
    (finished,) = data_files(table) - files
    assert rows_by_key(table.to_arrow()) == before
    result = table.run_clustering(instant)
    assert result is not None
    assert result.reused_items == 1
    assert rows_by_key(table.to_arrow()) == before
    named = {slice_.base.path for slice_ in slices(table) if slice_.base}
    assert finished in named
    assert data_files(table) - files == named


def test_a_file_that_is_gone_is_not_adopted(tmp_path: Path) -> None:
    table = make(tmp_path)
    fill(table)
    before, files = rows_by_key(table.to_arrow()), data_files(table)
    instant = table.schedule_clustering()
    with pytest.raises(Outage):
        run_clustering(open_ref(table.uri), instant, FailingEngine(1))
    (finished,) = data_files(table) - files
    (tmp_path / "t" / finished).unlink()
    result = table.run_clustering(instant)
    assert result is not None
    assert result.reused_items == 0
    assert rows_by_key(table.to_arrow()) == before


def test_items_that_run_twice_leave_one_file(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    fill(table)
    before, files = rows_by_key(table.to_arrow()), data_files(table)
    instant = table.schedule_clustering(order_by="fare")
    run_clustering(open_ref(table.uri), instant, TwiceEngine())
    assert rows_by_key(table.to_arrow()) == before
    assert data_files(table) - files == {s.base.path for s in slices(table) if s.base}


def test_writes_conflict_with_a_plan_that_stays(tmp_path: Path) -> None:
    table = make(tmp_path)
    fill(table)
    instant = table.schedule_clustering()
    with pytest.raises(WriteConflict):
        table.upsert(rows([3], ts=9))
    table.insert(rows([1_000]))  # of a new file group, which the plan knows nothing of
    before = rows_by_key(table.to_arrow())
    table.run_clustering(instant)
    assert rows_by_key(table.to_arrow()) == before
    table.upsert(rows([3], ts=9))
    assert table.to_arrow(filter="id = 3")["ts"].to_pylist() == [9]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_writes_cancel_a_plan_that_may_be_cancelled(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    fill(table)
    instant = table.schedule_clustering(cancellable=True)
    table.upsert(rows([3], ts=9))
    before = rows_by_key(table.to_arrow())
    with pytest.raises(PlanCancelled):
        table.run_clustering(instant)
    assert rows_by_key(table.to_arrow()) == before
    table.execute_cancel(str(instant))
    cluster(table)
    assert rows_by_key(table.to_arrow()) == before


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_clustering_loses_to_a_write_that_it_was_not_planned_on(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    fill(table)
    instant = table.schedule_clustering()
    hoodoo.open_table(table.uri, PREFER_WRITER).upsert(rows([3], ts=9))
    before, files = rows_by_key(table.to_arrow()), data_files(table)
    assert before["3"]["ts"] == 9
    with pytest.raises(WriteConflict):
        hoodoo.open_table(table.uri, PREFER_WRITER).run_clustering(instant)
    assert rows_by_key(table.to_arrow()) == before
    assert data_files(table) == files
    cluster(table)
    assert rows_by_key(table.to_arrow()) == before


def test_file_groups_of_a_write_in_progress_are_left_alone(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(rows(range(20)))
    table.insert(rows(range(20, 40)))
    table.insert(rows(range(40, 60)))
    with pause_write(
        tmp_path / "t", lambda other: other.upsert(rows([2, 3], ts=2)), at=WRITTEN
    ) as write:
        cluster(table)
        write.go_on()
    assert len(slices(table)) == 4, "in each partition one that was clustered, and the one written"
    found = rows_by_key(table.to_arrow())
    assert len(found) == 60
    assert found["2"]["ts"] == 2


ORDERS: list[dict[str, Any]] = [
    {},
    {"order_by": "note"},
    {"order_by": ["fare", "note"], "layout": "zorder"},
    {"order_by": ["ts", "fare", "id"], "layout": "hilbert"},
]


@pytest.mark.thin(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_have_the_rows_of_a_dict(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = make(
        tmp_path,
        chance.choice(["cow", "mor"]),
        parquet__small__file__limit=chance.choice([0, 100_000_000]),
        clustering__plan__strategy__max__bytes__per__group=chance.choice([5_000, 10**9]),
        clean__automatic=False,  # every as-of read is tried
    )
    model: dict[int, int] = {}
    past: list[tuple[str, dict[int, int]]] = []
    for step in range(1, 16):
        keys = sorted(chance.sample(range(60), chance.randint(1, 20)))
        action = chance.choice(["upsert", "upsert", "insert", "delete", "cluster", "cluster"])
        instant: str | None = None
        if action == "cluster":
            instant = table.schedule_clustering(**chance.choice(ORDERS))
            if instant is not None:
                table.run_clustering(instant)
        elif action == "delete":
            instant = table.delete(keys).instant
            model = {key: ts for key, ts in model.items() if key not in keys}
        else:
            new = [key for key in keys if key not in model] if action == "insert" else keys
            if not new:
                continue
            write = table.insert if action == "insert" else table.upsert
            instant = write(rows(new, ts=step)).instant
            model = {**model, **dict.fromkeys(new, step)}
        assert values(table) == model
        if instant is not None:
            past.append((instant, model))
    for instant, then in past:
        assert values(table, as_of=instant) == then


def values(table: hoodoo.Table, as_of: str | None = None) -> dict[int, int]:
    found = table.to_arrow(columns=["id", "ts"], as_of=as_of).to_pylist()
    by_id = {row["id"]: row["ts"] for row in found}
    assert len(by_id) == len(found)
    return by_id


def test_tasks_of_one_plan_are_known_by_what_they_read(tmp_path: Path) -> None:
    table = make(tmp_path)
    fill(table)
    ref = open_ref(table.uri)
    snapshot = take_snapshot(ref)
    plans = [
        plan_clustering(snapshot, order)
        for order in (RowOrder(), RowOrder(("fare",)), RowOrder(("fare",), Layout.HILBERT))
    ]
    context = WriteContext(
        ref=ref,
        requested_time=InstantTime("20300101000000000"),
        by_key=False,
        schema=without_meta_fields(snapshot.schema),
        schema_json="",
        read_rule=build_scan_rule(snapshot),
    )
    digests = [
        [
            task.digest
            for task in build_tasks(context, RequestedReplaceMetadata(clustering_plan=plan))
        ]
        for plan in (*plans, plans[0])
    ]
    assert digests[0] == digests[3]
    assert len({digest for each in digests for digest in each}) == 6
