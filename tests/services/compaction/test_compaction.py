"""Compaction: what readers see stays; plans are executed once, resumed, and cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo import errors
from hoodoo.api.table import Table
from hoodoo.concurrency.heartbeats import take_over
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.model.plans import CompactionPlan
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.compaction import compaction
from hoodoo.table.timeline import read_commit, read_plan
from hoodoo.write.files import handle

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.compact.inline": False,
}


def rows(keys: dict[str, int]) -> pa.Table:
    ids = list(keys)
    parts = [f"p{int(key[1:]) % 2}" for key in ids]
    return pa.table([ids, parts, list(keys.values())], schema=SCHEMA)


def new_table(path: Path, *, ordering: str | None = None, **options: object) -> Table:
    return hoodoo.create_table(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        ordering=ordering,
        table_type="mor",
        options={**OPTIONS, **options},
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Six rows in two file groups, two of them updated in logs, one deleted."""
    made = new_table(tmp_path / "t")
    made.insert(rows({f"k{n}": 0 for n in range(6)}))
    made.upsert(rows({"k0": 1, "k1": 1}))
    made.delete(["k2"])
    return made


def content(table: Table, **given: Any) -> list[dict[str, Any]]:
    """Rows without the name of the file that holds them."""
    read = table.to_arrow(**given)
    return rows_of(read.drop_columns(["_hoodie_file_name"]))


def plan_of(table: Table, instant: str) -> CompactionPlan:
    ref = table._ref
    found = ref.load_timeline().find(instant)
    assert found is not None
    plan = read_plan(ref.env, ref.properties.timeline_paths, found)
    assert isinstance(plan, CompactionPlan)
    return plan


def logs(table: Table) -> int:
    """Log files of the latest slices."""
    return sum(len(group.slices[-1].log_files) for group in table.files().groups)


def test_a_compaction_changes_nothing_that_readers_see(table: Table) -> None:
    instants = [each.requested_time for each in table.timeline() if each.state == "completed"]
    before, as_of = content(table), [content(table, as_of=time) for time in instants]
    changed = content_of_changes(table, instants[0])
    instant = table.schedule_compaction()
    assert instant is not None
    assert content(table) == before  # pending
    done = table.run_compaction()
    assert done is not None
    assert (done.instant, done.completed_by_other, done.stats.files) == (instant, False, 2)
    assert content(table) == before
    assert [content(table, as_of=time) for time in instants] == as_of
    assert content_of_changes(table, instants[0]) == changed
    assert logs(table) == 0
    assert wheel_rows(table.uri.removeprefix("file://")) == rows_of(table.to_arrow())


def content_of_changes(table: Table, since: str) -> list[dict[str, Any]]:
    read = table.changes(since=since)
    return rows_of(read.drop_columns(["_hoodie_file_name"]))


def test_the_commit_of_a_compaction_is_as_apache_hudi_writes_it(table: Table) -> None:
    instant = table.schedule_compaction()
    assert instant is not None
    operations = plan_of(table, instant).operations
    assert {len(each.delta_file_paths or ()) for each in operations} == {1, 2}
    table.run_compaction(instant)
    ref = table._ref
    completed = ref.load_timeline().find(instant)
    assert completed is not None
    metadata = read_commit(ref.env, ref.properties.timeline_paths, completed)
    assert completed.action.value == "commit"
    assert (metadata.operation_type, metadata.compacted) == ("COMPACT", True)
    assert sum(stat.total_log_files_compacted for _, stat in metadata.stats()) == 3


def test_writes_beside_a_pending_compaction_are_kept(table: Table) -> None:
    instant = table.schedule_compaction()
    table.upsert(rows({"k0": 2, "k9": 2}))
    table.delete(["k3"])
    before = content(table)
    table.run_compaction(instant)
    assert content(table) == before
    assert logs(table) == 2  # they belong to the new slices
    assert wheel_rows(table.uri.removeprefix("file://")) == rows_of(table.to_arrow())


def test_a_completed_plan_is_not_executed_again(table: Table) -> None:
    instant = table.schedule_compaction()
    first = table.run_compaction(instant)
    again = table.run_compaction(instant)
    assert first is not None
    assert again is not None
    assert again.completed_by_other
    assert (again.completion_time, again.stats) == (first.completion_time, first.stats)
    assert table.run_compaction() is None
    assert table.schedule_compaction() is None


def test_a_second_plan_leaves_file_groups_of_the_first_alone(table: Table) -> None:
    first = table.schedule_compaction()
    table.upsert(rows({"k0": 5, "k8": 5}))
    table.upsert(rows({"k8": 6}))
    second = table.schedule_compaction()
    assert first is not None
    assert second is not None
    assert not plan_of(table, first).file_groups() & plan_of(table, second).file_groups()
    before = content(table)
    table.run_compaction(second)
    table.run_compaction(first)
    assert content(table) == before


def test_copy_on_write_tables_have_nothing_to_compact(tmp_path: Path) -> None:
    table = hoodoo.create_table(tmp_path / "t", schema=SCHEMA, record_key="id")
    with pytest.raises(errors.InputError, match="merge-on-read"):
        table.schedule_compaction()


# -- attempts -----------------------------------------------------------------------------------


class Died(BaseException):
    """The process that executes a plan is gone."""


def test_the_next_attempt_adopts_what_is_finished(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    instant, before = table.schedule_compaction(), content(table)
    one_thread = Table(table._ref, LocalEngine(threads=1))
    done: list[str] = []

    def run(task: handle.HandleTask) -> Any:
        if done:
            raise Died
        done.append(task.handle)
        return handle.run_handle(task)

    real = compaction.COMPACTION
    monkeypatch.setattr(compaction, "COMPACTION", type(real)(**{**vars(real), "run_task": run}))
    with pytest.raises(Died):
        one_thread.run_compaction(instant)
    assert content(table) == before
    monkeypatch.setattr(compaction, "COMPACTION", real)
    result = table.run_compaction(instant)
    assert result is not None
    assert (result.reused_items, result.stats.files) == (1, 2)
    assert content(table) == before
    assert wheel_rows(table.uri.removeprefix("file://")) == rows_of(table.to_arrow())


# -- cancelling ---------------------------------------------------------------------------------


def test_a_cancelled_plan_ends_with_a_record_and_a_tombstone(table: Table) -> None:
    before = content(table)
    instant = table.schedule_compaction(cancellable=True)
    assert instant is not None
    with pytest.raises(errors.CancelNotRequested):
        table.execute_cancel(instant)
    assert table.request_cancel(instant)
    assert not table.request_cancel(instant)
    ended = table.execute_cancel(instant)
    assert ended is not None
    assert table.execute_cancel(instant) is None
    with pytest.raises(errors.PlanCancelled):
        table.run_compaction(instant)
    storage = table._ref.env.storage
    assert storage.exists(paths.aborted_plan_path(instant))
    assert not storage.exists(paths.cancel_path(instant))
    names = [entry.path.rpartition("/")[2] for entry in storage.list(".hoodie/timeline")]
    assert f"{instant}.compaction.aborted" in names
    assert f"{instant}.compaction.requested" not in names
    assert content(table) == before
    assert wheel_rows(table.uri.removeprefix("file://")) == rows_of(table.to_arrow())
    again = table.schedule_compaction()
    assert again is not None
    assert table.run_compaction(again) is not None
    assert content(table) == before


def test_only_pending_cancellable_plans_are_cancelled(table: Table) -> None:
    persistent = table.schedule_compaction()
    assert persistent is not None
    with pytest.raises(errors.NotCancellable, match="persistent"):
        table.request_cancel(persistent)
    table.run_compaction(persistent)
    for call in (table.request_cancel, table.execute_cancel):
        with pytest.raises(errors.AlreadyCommitted):
            call(persistent)
        with pytest.raises(errors.NotCancellable, match="no pending plan"):
            call("20200101000000000")
    commit = table.upsert(rows({"k1": 8})).instant
    with pytest.raises(errors.AlreadyCommitted):
        table.request_cancel(commit)


def test_an_operator_can_cancel_a_persistent_plan(table: Table) -> None:
    instant, before = table.schedule_compaction(), content(table)
    assert instant is not None
    assert table.request_cancel(instant, force=True)
    assert table.execute_cancel(instant) is not None
    assert content(table) == before


def test_a_write_that_replaces_file_groups_cancels_the_plan(table: Table) -> None:
    instant = table.schedule_compaction(cancellable=True)
    assert instant is not None
    write_only = hoodoo.open_table(table.uri, {"hoodie.table.services.enabled": "false"})
    write_only.insert_overwrite_table(rows({"k5": 9}))
    assert table._ref.env.storage.exists(paths.cancel_path(instant))
    with pytest.raises(errors.PlanCancelled):
        table.run_compaction(instant)
    ended = [each for each in table.timeline() if each.requested_time == instant]
    assert [each.state for each in ended] == ["aborted"]


def test_a_write_that_cancels_a_plan_takes_it_off_the_timeline(table: Table) -> None:
    instant = table.schedule_compaction(cancellable=True)
    assert instant is not None
    table.insert_overwrite_table(rows({"k5": 9}))
    assert not table._ref.load_timeline().pending
    assert not table._ref.env.storage.exists(paths.cancel_path(instant))
    ended = [each for each in table.timeline() if each.requested_time == instant]
    assert [each.state for each in ended] == ["aborted"]


def test_a_write_leaves_a_cancelled_plan_to_an_executor_that_is_alive(table: Table) -> None:
    instant = table.schedule_compaction(cancellable=True)
    assert instant is not None
    heartbeat = take_over(table._ref, InstantTime(instant), kind="compaction")
    try:
        table.insert_overwrite_table(rows({"k5": 9}))
    finally:
        heartbeat.stop()
    assert table._ref.env.storage.exists(paths.cancel_path(instant))
    assert [each.requested_time for each in table._ref.load_timeline().pending] == [instant]


def test_recover_carries_out_a_cancel_that_nobody_executes(table: Table) -> None:
    instant = table.schedule_compaction(cancellable=True)
    assert instant is not None
    table.request_cancel(instant)
    (done,) = table.recover().rolled_back
    assert (done.instant, done.ending.value) == (instant, "abort")


def test_a_persistent_plan_may_be_made_over_a_cancellable_one(table: Table) -> None:
    yields = table.schedule_compaction(cancellable=True)
    stays = table.schedule_compaction()
    assert yields is not None
    assert stays is not None
    with pytest.raises(errors.PlanCancelled):
        table.run_compaction(yields)
    assert table.run_compaction(stays) is not None


@pytest.mark.parametrize(
    ("given_terms", "message"),
    [
        ({"cancellation_policy": {"hours": 1}}, "cancellable=True"),
        ({"cancellable": True, "cancellation_policy": {"days": 1}}, "not days"),
        ({"cancellable": True, "cancellation_policy": {}}, "not none"),
        ({"cancellable": True, "cancellation_policy": {"hours": -1}}, "0 or more"),
    ],
)
def test_bad_terms_are_refused_and_nothing_is_planned(
    table: Table, given_terms: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.InputError, match=message):
        table.schedule_compaction(**given_terms)
    assert table._ref.load_timeline().pending.instants == ()


# -- a model ------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 9), st.integers(0, 5))),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 9), min_size=1, max_size=3)),
        st.tuples(st.just("schedule"), st.just(None)),
        st.tuples(st.just("run"), st.just(None)),
    ),
    min_size=3,
    max_size=9,
)


@pytest.mark.parametrize("ordering", [None, "v"])
@settings(max_examples=histories(5), deadline=None)
@given(steps=STEPS)
def test_compactions_between_writes_agree_with_a_model(
    ordering: str | None, steps: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = new_table(tmp_path_factory.mktemp("model") / "t", ordering=ordering)
    model = {f"k{n}": 0 for n in range(6)}
    table.insert(rows(model))
    for kind, given_rows in steps:
        if kind == "upsert" and given_rows:
            change = {f"k{n}": v for n, v in given_rows.items()}
            table.upsert(rows(change))
            for key, v in change.items():
                if ordering is None or v >= model.get(key, v):
                    model[key] = v
        elif kind == "delete":
            keys = [f"k{n}" for n in given_rows if f"k{n}" in model]
            if keys:
                table.delete(keys)
                model = {key: v for key, v in model.items() if key not in keys}
        elif kind == "schedule":
            table.schedule_compaction()
        elif kind == "run":
            table.run_compaction()
        read = table.to_arrow(columns=["id", "v"]).to_pydict()
        assert dict(zip(read["id"], read["v"], strict=True)) == model
    found = wheel_rows(table.uri.removeprefix("file://"))
    assert {row["id"]: row["v"] for row in found} == model
