"""Log compaction: no reader sees a difference, whatever is written before, during and after it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiQueryType, HudiReadOptions
from hypothesis import given, settings
from hypothesis import strategies as st
from support.built_table import HandMade, at, commit_metadata, group
from support.histories import histories
from support.log_headers import copy_without_headers
from support.paused_writes import pause_write
from support.wheel import rows_of, wheel_rows, wheel_table

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import (
    InputError,
    PlanCancelled,
    PlanNotExecutable,
    UnsupportedFeature,
    WriteConflict,
)
from hoodoo.format.log.blocks import BlockType, HeaderKey, encode_blocks
from hoodoo.format.log.data import avro_block, decode_data
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.log.reader import read_blocks
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
THRESHOLD = "hoodie.log.compaction.blocks.threshold"
BLOCK = "hoodie.logfile.data.block.format"
Rows = list[tuple[int, int, int]]  # id, ts, v


def arrow(rows: Rows, columns: int = 4) -> pa.Table:
    listed = [{"id": k, "p": f"p{k % 2}", "ts": ts, "v": v} for k, ts, v in rows]
    return pa.Table.from_pylist(listed, SCHEMA).select(SCHEMA.names[:columns])


def make(place: Path | str, *, ordering: str | None = None, **options: object) -> hoodoo.Table:
    settings = {THRESHOLD: 2, "hoodie.compact.inline": "false", **options}
    return hoodoo.create_table(
        f"{place}/t",
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        ordering=ordering,
        table_type="mor",
        options=settings,
    )


def path_of(table: hoodoo.Table) -> Path:
    return Path(table.uri.removeprefix("file://"))


def seen(table: hoodoo.Table) -> list[tuple[int, int, int]]:
    rows = table.to_arrow(columns=["id", "ts", "v"]).to_pylist()
    return sorted((row["id"], row["ts"], row["v"]) for row in rows)


def compact_logs(table: hoodoo.Table) -> str:
    instant = table.schedule_log_compaction()
    assert instant is not None
    result = table.run_log_compaction()
    assert result is not None
    assert result.instant == instant
    return instant


def log_files(table: hoodoo.Table, instant: str) -> list[Path]:
    found = path_of(table).rglob(f".*_{instant}.log.*")
    return sorted(path for path in found if ".hoodie/metadata" not in path.as_posix())


# -- random histories -------------------------------------------------------------------------


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 999)), min_size=1, max_size=5
)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("delete"), ROWS),
    st.tuples(st.just("delete_older"), ROWS),
    st.tuples(st.just("schedule"), st.sampled_from(["persistent", "removable", "cancellable"])),
    st.tuples(st.just("run"), st.none()),
    st.tuples(st.just("schedule and run"), st.none()),
)


@dataclass
class Model:
    """What the table should hold, which step wrote each row, and what each instant showed."""

    by_event: bool
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    written_by: dict[int, int] = field(default_factory=dict)
    planned: dict[str, Rows] = field(default_factory=dict)
    past: list[tuple[str, Rows]] = field(default_factory=list)

    def apply(self, step: str, given: Rows) -> None:
        for key, ts, v in self._winners(given):
            old = self.rows.get(key)
            is_late = self.by_event and old is not None and ts < old[0]
            if step == "delete" or (step == "delete_older" and not is_late):
                self.rows.pop(key, None)
                self.written_by.pop(key, None)
            elif step == "upsert" and not is_late:
                self.rows[key] = (ts, v)
                self.written_by[key] = len(self.past) + 1

    def _winners(self, given: Rows) -> Rows:
        found: dict[int, tuple[int, int]] = {}
        for key, ts, v in given:
            if key not in found or not self.by_event or ts >= found[key][0]:
                found[key] = (ts, v)
        return [(key, ts, v) for key, (ts, v) in found.items()]

    def listed(self, after: int = 0) -> Rows:
        rows = self.rows.items()
        return sorted((k, ts, v) for k, (ts, v) in rows if self.written_by[k] > after)


def do(table: hoodoo.Table, model: Model, step: str, given: Any) -> str | None:
    """One step on both; its instant, if it completed one."""
    try:
        match step:
            case "upsert":
                result = table.upsert(arrow(given))
            case "delete":
                result = table.delete(arrow(given, 2))
            case "delete_older":
                result = table.delete(arrow(given))
            case "schedule":
                _schedule(table, model, {} if given == "persistent" else {given: True})
                return None
            case "run":
                return _run(table)
            case _:
                _schedule(table, model, {})
                return _run(table)
    except WriteConflict:  # a row that came back takes a new base file, and the plan is in the way
        assert table.run_log_compaction() is not None
        return do(table, model, step, given)
    model.apply(step, given)
    return result.instant


def _schedule(table: hoodoo.Table, model: Model, terms: dict[str, bool]) -> None:
    instant = table.schedule_log_compaction(**terms)
    if instant is not None:
        model.planned[instant] = model.listed()  # an instant shows what was there when it began


def _run(table: hoodoo.Table) -> str | None:
    try:
        done = table.run_log_compaction()
    except (PlanCancelled, PlanNotExecutable):
        return None
    return done.instant if done else None


@pytest.mark.parametrize("by_event", [True, False])
@settings(max_examples=histories(7))
@given(
    steps=st.lists(STEPS, min_size=3, max_size=9),
    log_format=st.sampled_from(["parquet", "avro"]),
)
def test_histories_with_log_compactions_read_as_those_without(
    by_event: bool, steps: list[tuple[str, Any]], log_format: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        ordering = "ts" if by_event else None
        table = make(place, ordering=ordering, **{BLOCK: log_format})
        model = Model(by_event)
        steps = [("upsert", [(key, 1, -key) for key in range(4)]), *steps, ("schedule and run", 0)]
        for step, given_rows in steps:
            instant = do(table, model, step, given_rows)
            assert seen(table) == model.listed(), (step, given_rows)
            assert rows_of(table.to_arrow()) == wheel_rows(path_of(table)), (step, given_rows)
            if instant is not None:
                model.past.append((instant, model.planned.get(instant, model.listed())))
        for number, (instant, rows) in enumerate(model.past, 1):
            then = table.to_arrow(as_of=instant)
            assert rows_of(then) == wheel_rows(path_of(table), instant)
            found = then.select(["id", "ts", "v"]).to_pylist()
            assert sorted((r["id"], r["ts"], r["v"]) for r in found) == rows
            changed = table.changes(since=instant).select(["id", "ts", "v"]).to_pylist()
            expected = model.listed(after=number)
            assert sorted((r["id"], r["ts"], r["v"]) for r in changed) == expected, number
        ignorant = copy_without_headers(path_of(table), Path(place) / "copy")
        now = rows_of(table.to_arrow())
        assert rows_of(hoodoo.open_table(str(ignorant)).to_arrow()) == now == wheel_rows(ignorant)


# -- what is written --------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> hoodoo.Table:
    """Three log files in one file group: updates, and a delete that competes by event time."""
    table = make(tmp_path, ordering="ts")
    table.insert(arrow([(0, 1, 0), (2, 1, 0), (4, 1, 0)]))
    table.upsert(arrow([(0, 2, 1), (2, 2, 1)]))
    table.delete(arrow([(2, 5, 0)]))
    table.upsert(arrow([(0, 3, 2)]))
    return table


def test_log_compaction_writes_one_log_file_with_rows_as_they_were(table: hoodoo.Table) -> None:
    before = rows_of(table.to_arrow())
    instant = compact_logs(table)
    assert rows_of(table.to_arrow()) == before == wheel_rows(path_of(table))
    (file,) = log_files(table, instant)
    rows, deletes = read_blocks(file.read_bytes()).blocks
    completed = table._ref.load_timeline().completed
    sources = [i.requested_time for i in completed.instants[1:4]]
    for block in (rows, deletes):
        assert block.instant_time == instant
        assert list(block.compacted_times) == sources
    (row,) = decode_data(rows).to_pylist()
    assert (row["id"], row["ts"], row["_hoodie_commit_time"]) == (0, 3, sources[2])
    assert deletes.type is BlockType.DELETE
    (gone,) = decode_deletes(deletes).to_pylist()
    assert (gone["record_key"], gone["ordering"]) == ("2", 5)


def test_log_compaction_completes_as_a_delta_commit(table: hoodoo.Table) -> None:
    instant = compact_logs(table)
    completed = table._ref.load_timeline().completed.find(instant)
    assert completed is not None
    metadata = read_commit(table._ref.env, table._ref.properties.timeline_paths, completed)
    assert completed.action.value == "deltacommit"
    assert metadata.operation is OperationType.LOG_COMPACT
    assert metadata.compacted
    ((_, stat),) = metadata.stats()
    assert (stat.num_writes, stat.num_deletes, stat.total_log_files_compacted) == (1, 1, 3)


def test_changes_are_the_same_for_the_wheel(table: hoodoo.Table) -> None:
    ends = [i.completion_time for i in table._ref.load_timeline().completed]
    before = [wheel_changes(table, str(since)) for since in ends]
    compact_logs(table)
    assert [wheel_changes(table, str(since)) for since in ends] == before
    assert [rows_of(table.changes(since=str(since))) for since in ends] == before
    assert [len(rows) for rows in before] == [1, 1, 1, 0]


def wheel_changes(table: hoodoo.Table, since: str) -> list[dict[str, Any]]:
    window = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    batches = wheel_table(path_of(table)).read(window.with_start_timestamp(since))
    return rows_of(pa.Table.from_batches(batches)) if batches else []


def test_late_row_loses_against_a_compacted_log(table: hoodoo.Table) -> None:
    compact_logs(table)
    table.upsert(arrow([(0, 2, 9)]))
    assert seen(table) == [(0, 3, 2), (4, 1, 0)]
    assert rows_of(table.to_arrow()) == wheel_rows(path_of(table))


def test_rows_that_flag_themselves_as_deleted_stay_rows(tmp_path: Path) -> None:
    """As Apache Hudi writes them; a delete of ours is in a delete block."""
    flag = "_hoodie_is_deleted"
    schema = SCHEMA.append(pa.field(flag, pa.bool_()))
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=schema,
        record_key="id",
        ordering="ts",
        table_type="mor",
        options={THRESHOLD: 2, BLOCK: "avro"},
    )
    alive = arrow([(0, 1, 0), (2, 1, 0)]).append_column(flag, pa.array([False, False]))
    table.insert(alive)
    first = table.upsert(alive.slice(0, 1))
    table.upsert(alive.slice(1, 1))
    (file,) = log_files(table, first.instant)
    (block,) = read_blocks(file.read_bytes()).blocks
    rows = decode_data(block)
    rows = rows.set_column(rows.schema.get_field_index(flag), flag, pa.array([True]))
    gone = avro_block(rows, instant_time=block.instant_time, schema_json=block.schema_json)
    file.write_bytes(encode_blocks([gone]))
    instant = compact_logs(table)
    assert seen(table) == [(2, 1, 0)]
    assert rows_of(table.to_arrow()) == wheel_rows(path_of(table))
    (compacted,) = read_blocks(log_files(table, instant)[0].read_bytes()).blocks
    assert decode_data(compacted).column(flag).to_pylist() == [True, False]


def test_merged_log_files_are_not_read(table: hoodoo.Table) -> None:
    instant = compact_logs(table)
    read: list[str] = []
    storage = TracedStorage(
        open_storage(table.uri), before=lambda verb, path: read.append(f"{verb} {path}")
    )
    ref = open_ref(table.uri, {}, Env(storage))
    assert seen(Table(ref, LocalEngine(threads=1))) == seen(table)
    reads = [each for each in read if each[:4] == "read" and ".hoodie/metadata" not in each]
    logs = [each.rpartition("/")[2] for each in reads if ".log." in each]
    assert logs == [log_files(table, instant)[0].name]


# -- planning ---------------------------------------------------------------------------------


def test_merged_log_files_count_as_one(table: hoodoo.Table) -> None:
    table = hoodoo.open_table(table.uri, {THRESHOLD: 3, "hoodie.compact.inline": "false"})
    compact_logs(table)
    assert table.schedule_log_compaction() is None
    table.upsert(arrow([(0, 4, 3)]))
    assert table.schedule_log_compaction() is None  # the compacted one, and one more
    table.upsert(arrow([(0, 5, 4)]))
    instant = compact_logs(table)
    (file,) = log_files(table, instant)
    assert len(read_blocks(file.read_bytes()).blocks[0].compacted_times) == 3
    assert seen(table) == [(0, 5, 4), (4, 1, 0)]
    assert rows_of(table.to_arrow()) == wheel_rows(path_of(table))


def test_groups_with_few_logs_are_left(table: hoodoo.Table) -> None:
    assert hoodoo.open_table(table.uri, {THRESHOLD: 4}).schedule_log_compaction() is None


def test_groups_of_pending_plans_are_left(table: hoodoo.Table) -> None:
    assert table.schedule_compaction() is not None
    assert table.schedule_log_compaction() is None


def test_group_has_one_pending_log_compaction(table: hoodoo.Table) -> None:
    assert table.schedule_log_compaction() is not None
    assert table.schedule_log_compaction() is None
    assert table.schedule_compaction() is None


def test_copy_on_write_tables_have_no_logs(tmp_path: Path) -> None:
    path = str(tmp_path / "cow")
    table = hoodoo.create_table(path, schema=SCHEMA, record_key="id", table_type="cow")
    with pytest.raises(InputError, match="merge-on-read"):
        table.schedule_log_compaction()


def test_tables_that_merge_by_a_java_class_are_refused(table: hoodoo.Table) -> None:
    properties = path_of(table) / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    lines = [line for line in lines if not line.startswith("hoodie.table.checksum")]
    text = "\n".join(lines).replace("EVENT_TIME_ORDERING", "CUSTOM")
    properties.write_text(text)
    with pytest.raises(UnsupportedFeature):
        hoodoo.open_table(table.uri).schedule_log_compaction()


# -- other writers ----------------------------------------------------------------------------


def test_group_with_a_write_in_progress_is_left(table: hoodoo.Table) -> None:
    table.upsert(arrow([(1, 1, 0)]))
    for ts in (2, 3):
        table.upsert(arrow([(1, ts, ts)]))
    with pause_write(path_of(table), lambda it: it.upsert(arrow([(0, 4, 40)]))) as write:
        instant = compact_logs(table)
        assert {file.parent.name for file in log_files(table, instant)} == {"p=p1"}
        write.go_on()
    assert seen(table) == [(0, 4, 40), (1, 3, 3), (4, 1, 0)]
    assert rows_of(table.to_arrow()) == wheel_rows(path_of(table))


def test_write_that_began_after_the_plan_stays_on_top(table: hoodoo.Table, tmp_path: Path) -> None:
    """Completed before, or after, the log compaction."""
    instant = table.schedule_log_compaction()
    table.upsert(arrow([(0, 3, 41)]))
    with pause_write(path_of(table), lambda it: it.upsert(arrow([(4, 1, 42)]))) as write:
        assert table.run_log_compaction(instant) is not None
        write.go_on()
    assert seen(table) == [(0, 3, 41), (4, 1, 42)]
    assert rows_of(table.to_arrow()) == wheel_rows(path_of(table))
    copy = copy_without_headers(path_of(table), tmp_path / "copy")
    assert seen(hoodoo.open_table(str(copy))) == seen(table)


def foreign_table(place: Path) -> tuple[HandMade, hoodoo.Table]:
    """Two log files over a base file, and a log compaction of them that is planned."""
    made = HandMade(place / "t", **{THRESHOLD: 2})
    made.commit(at(1), at(2), made.base(group(1), at(1), {"a": 1, "b": 1}))
    made.commit(at(3), at(4), made.log(group(1), at(3), {"a": 2}))
    made.commit(at(5), at(6), made.log(group(1), at(5), {"b": 3}))
    table = hoodoo.open_table(made.ref.uri, {THRESHOLD: 2})
    assert table.schedule_log_compaction() is not None
    return made, table


def values(table: hoodoo.Table) -> dict[str, int]:
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


def test_gives_way_to_an_older_write_completed_since(tmp_path: Path) -> None:
    made, table = foreign_table(tmp_path)
    late = type(at(1))("20990101000000000")
    made.commit(at(10), late, made.log(group(1), at(10), {"a": 4}))
    with pytest.raises(WriteConflict, match="requested earlier"):
        table.run_log_compaction()
    assert values(table) == {"a": 4, "b": 3}
    assert table.run_log_compaction() is None  # it is cancelled: nothing can complete it


def test_gives_way_to_an_older_write_in_progress(tmp_path: Path) -> None:
    made, table = foreign_table(tmp_path)
    stat = made.log(group(1), at(10), {"a": 4})
    made.pending(at(10), Action.DELTA_COMMIT, commit_metadata(stat))
    with pytest.raises(WriteConflict, match="is writing to"):
        table.run_log_compaction()
    assert values(table) == {"a": 2, "b": 3}


def test_groups_with_partial_rows_are_left(tmp_path: Path) -> None:
    _, table = foreign_table(tmp_path)
    (file,) = path_of(table).rglob(f".*_{at(5)}.log.*")
    (block,) = read_blocks(file.read_bytes()).blocks
    partial = replace(block, header={**block.header, HeaderKey.IS_PARTIAL: "true"})
    file.write_bytes(encode_blocks([partial]))
    done = table.run_log_compaction()
    assert done is not None
    assert done.stats.files == 0
    assert values(table) == {"a": 2, "b": 3}
