"""The steps of the tour, in the order in which they are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoodoo.api.create import open_table
from hoodoo.cli.demo.checkpoint import Checkpoint, report_at
from hoodoo.cli.demo.killed_compaction import DONE_BEFORE
from hoodoo.cli.demo.killed_writer import CITY, HEARTBEAT
from hoodoo.cli.demo.paused_writer import FIRST_MARKER, MARKER_LISTING, PausedWriter
from hoodoo.cli.demo.tour import Tour, TourStep, expect, say, say_long, show_rows
from hoodoo.cli.output.conflicts import print_conflicts
from hoodoo.errors import EarlyConflict, EngineFailed, HoodooError, PlanInProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoodoo.api.table import Table
    from hoodoo.services.plans.execute import ServiceResult
    from hoodoo.write.commit.publish import CommitResult


# -- an index, built while a writer is in the middle of its write ----------------------------------


_BY_INDEX = {"hoodie.index.type": "RECORD_INDEX"}
_FEW_FILES = {"hoodie.metadata.global.record.level.index.min.filegroup.count": 4}


def build_index(tour: Tour) -> None:
    """Build a record index beside a writer, and find the writer's new row by it."""
    new = _row(tour, fare=31.0, ts=6)
    with PausedWriter(tour.place, new, {}, at=MARKER_LISTING) as writer:
        say("a writer has written a new trip, and has not committed yet")
        with tour.working("index create record_index"):
            index_result = open_table(str(tour.place), _FEW_FILES).create_index("record_index")
        assert index_result is not None
        say(f"built by {index_result.instant}: {', '.join(index_result.built)}")
        expect(writer.is_paused, "nobody waited for anybody")
        say(f"the writer goes on, and commits: {writer.go_on().result().instant}")
    for index in tour.table.inspect.indexes():
        say(f"{index.name}: {index.state}, {index.files} files, {index.size_bytes:,} bytes")
    with tour.working("upsert of the same trip, found by the index"):
        commit = open_table(str(tour.place), _BY_INDEX).upsert(_row(tour, fare=32.0, ts=7))
    stats = commit.stats
    say(f"committed {commit.instant}: {stats.updated} updated, {stats.inserted} inserted")
    expect((stats.updated, stats.inserted) == (1, 0), "the index knows the new trip")
    expect(not tour.table.doctor(), "and nothing is wrong")


def _row(tour: Tour, *, fare: float, ts: int) -> Any:
    import pyarrow as pa

    row = {"trip_id": "t-index", "city": "lima", "fare": fare, "ts": ts}
    return pa.Table.from_pylist([row], tour.table.schema)


# -- the steps in order ----------------------------------------------------------------------------


COLUMNS = ("trip_id", "city", "fare", "ts")
SCHEMA = "trip_id string, city string, fare double, ts long"
WHEEL = "hudi==0.5.0"
_TRIPS = 20_000
_CITY_NAMES = ("lima", "oslo", "pune", "sao_paulo")
_CITIES = f"element_at(array{_CITY_NAMES}, cast(id % 4 + 1 AS int))"
# Rows stay in Spark whatever their number: few rows the driver would collect before it looks at
# the table, and then the writers would not meet.
_IN_SPARK = {"hoodie.write.spark.driver.max.bytes": 0}
_RETRIES = {**_IN_SPARK, "hoodie.write.num.retries.on.conflict.failures": 3}
_LOOKS_LATE = {
    "hoodie.write.concurrency.early.conflict.detection.strategy": "simple_direct",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": 600_000,
}
_LOOK_AGAIN_S = 0.5


def _load(tour: Tour) -> None:
    rows = tour.spark.range(0, _TRIPS, 1, 2).selectExpr(
        "concat('t', id) AS trip_id",
        f"{_CITIES} AS city",
        "cast(5 + id % 50 AS double) AS fare",
        "1L AS ts",
    )
    with tour.working(f"bulk_insert of {_TRIPS:,} trips"):
        commit = tour.table.bulk_insert(rows)
    tour.instants["load"] = commit.instant
    _say_committed(commit)
    expect(tour.table.read(tour.spark).count() == _TRIPS, "all trips are there")


def _upsert(tour: Tour) -> None:
    rows = _frame(
        tour,
        ("t0", "lima", 99.50, 2),
        ("t1", "oslo", 0.01, 0),
        ("t-new", "oslo", 12.40, 2),
    )
    with tour.working("upsert of three trips"):
        commit = tour.table.upsert(rows)
    tour.instants["upsert"] = commit.instant
    tour.timings = dict(commit.timings)
    _say_committed(commit)
    _show(tour, "trip_id in ('t0', 't1', 't-new')")
    expect(_fares(tour, "t0", "t1", "t-new") == [99.5, 6.0, 12.4], "the newer version wins")


def _conflict(tour: Tour) -> None:
    trips = [(f"t{n}", city, 222.0, 3) for n, city in enumerate(_CITY_NAMES)]
    one, all_four = _rows(tour, ("t2", "pune", 111.0, 3)), _rows(tour, *trips)
    with PausedWriter(tour.place, one, {}, at=MARKER_LISTING) as writer_a:
        with PausedWriter(tour.place, all_four, _LOOKS_LATE, at=FIRST_MARKER) as writer_b:
            expect(writer_a.is_paused and writer_b.is_paused, "both are in the middle")
            say("A has written its file, B is about to write four. `hoodoo conflicts` says:")
            reports = tour.table.conflicts()
            print_conflicts(reports, indent="    ")
            start_s = time.monotonic()
            clash_error = _say_stopped("B", writer_b.go_on().exception())
        took = time.monotonic() - start_s
        say(f"saved: all of its four file groups; it ended {took:.1f} s after it was let on")
        losers = [clash.loser for clash in reports[1].clashes]
        expect(losers == [clash_error.instant], "the loser is the one that was told")
        with tour.working("writer C, the same on Spark, looks when it begins"):
            table = open_table(str(tour.place), _IN_SPARK)
            error = _fail(lambda: table.upsert(_frame(tour, *trips)))
        _say_stopped("C", error)
        seconds = sum(tour.timings.get(phase, 0.0) for phase in ("write", "finalize", "commit"))
        say(f"saved: every task that writes files; step 2 took {seconds:.1f} s for that")
        expect(writer_a.is_paused, "A was not disturbed")
        say(f"A goes on, and commits: {writer_a.go_on().result().instant}")
    _show(tour, "trip_id = 't2'")
    expect(_fares(tour, "t0", "t2") == [99.5, 111.0], "nothing of B and C is visible")


def _fail(write: Callable[[], CommitResult]) -> HoodooError | None:
    try:
        write()
    except HoodooError as error:
        return error
    return None


def _say_stopped(who: str, error: BaseException | None) -> EarlyConflict:
    if not isinstance(error, EarlyConflict):
        raise error or EngineFailed("the tour expected an EarlyConflict")
    say(f"{who} is stopped: EarlyConflict:")
    say_long(str(error))
    return error


def _retry(tour: Tour) -> None:
    outcome = _overlap(tour, _RETRIES, first=333.0, second=444.0)
    say(f"B committed, then A at its second try: {outcome.result().instant}")
    _show(tour, "trip_id = 't2'")
    expect(_fares(tour, "t2") == [333.0], "writer A came last")


def _overlap(
    tour: Tour, options: dict[str, int], *, first: float, second: float
) -> Future[CommitResult]:
    """Writer A updates a trip; in the middle of that, writer B updates it too. How A ends."""
    with Checkpoint() as checkpoint, ThreadPoolExecutor(1) as pool:
        slow = _frame(tour, ("t2", "pune", first, 3)).coalesce(1)
        slow = slow.mapInArrow(report_at(checkpoint.pass_, "t2"), slow.schema)
        with tour.working("writer A begins; writer B begins and commits; writer A goes on"):
            writer = pool.submit(lambda: open_table(str(tour.place), options).upsert(slow))
            if checkpoint.wait(writer.done):
                tour.table.upsert(_frame(tour, ("t2", "pune", second, 3)))
            checkpoint.open()
            writer.exception()  # waits for its end
    return writer


def _kill(tour: Tour) -> None:
    before = tour.table.read(tour.spark).count()
    with tour.working("a second Spark starts, writes half of its rows, and is killed"):
        victim = _run_and_kill("killed_writer", str(tour.place))
    pending = [each for each in tour.table.timeline() if each.completion_time is None]
    files = list(tour.place.glob(f"city={CITY}/*.parquet"))
    say(f"killed process {victim}; it left {len(pending)} pending instant and these files:")
    for file in files:
        say(f"  {file.relative_to(tour.place)}")
    after = tour.table.read(tour.spark).count()
    say(f"rows that readers see: {after:,}, as before")
    expect(len(pending) == 1 and bool(files), "the dead writer left an instant and files")
    expect(after == before, "nothing of the dead writer is visible")


def _run_and_kill(module: str, *words: str) -> int:
    """Start a program of the tour, and kill it once it reports; its process id."""
    with Checkpoint() as checkpoint, tempfile.TemporaryDirectory() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"hoodoo.cli.demo.{module}", *words, checkpoint.pass_],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": log},
            start_new_session=True,
        )
        came = checkpoint.wait(lambda: process.poll() is not None)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    expect(came, "the process got to the middle of its work")
    return process.pid


def _recover(tour: Tour) -> None:
    patient = open_table(str(tour.place), HEARTBEAT)
    with tour.working("recover, once the heartbeat has been silent for three seconds"):
        while not (result := patient.recover()).rolled_back:
            time.sleep(_LOOK_AGAIN_S)  # only time makes a writer dead
    for dead in result.rolled_back:
        say(f"rolled back {dead.instant}: {len(dead.files)} data file(s) deleted; {dead.reason}")
    stray_files = list(tour.place.glob(f"city={CITY}/*.parquet"))
    expect(not stray_files, "the files of the dead writer are gone")


def _time_travel(tour: Tour) -> None:
    instant = tour.instants["load"]
    with tour.working(f"read as of {instant}"):
        rows = tour.table.read(tour.spark, as_of=instant)
        count = rows.count()
    say(f"{count:,} rows, and trip t0 as it was loaded:")
    show_rows(rows.filter("trip_id = 't0'").select(*COLUMNS))
    expect(count == _TRIPS, "the load is there as it was")


def _changes(tour: Tour) -> None:
    instant = tour.instants["load"]
    with tour.working(f"changes since {instant}"):
        rows = tour.table.changes(tour.spark, since=instant).select(*COLUMNS).orderBy("trip_id")
        names = [row.trip_id for row in rows.collect()]
    show_rows(rows)
    expect(names == ["t-new", "t0", "t2"], "only what changed is read")


def _give_way(tour: Tour) -> None:
    plan = tour.table.schedule_clustering(order_by="fare", cancellable=True)
    assert plan is not None
    (waiting,) = tour.table.plans()
    say(f"planned clustering {plan}: {waiting.file_groups} file groups, {waiting.policy}")
    with tour.working("upsert of a trip in one of them"):
        commit = tour.table.upsert(_frame(tour, ("t0", "lima", 77.0, 4)))
    say(f"committed {commit.instant}")
    (entry,) = (each for each in tour.table.timeline() if each.state == "aborted")
    say(f"{entry.action} {entry.requested_time} is {entry.state}: {entry.cancelled}")
    expect(entry.requested_time == plan and not tour.table.plans(), "the plan is gone")
    expect(_fares(tour, "t0") == [77.0], "the write is there")


def _resume(tour: Tour) -> None:
    patient = open_table(str(tour.place), {**HEARTBEAT, "hoodie.compact.inline": False})
    rows = [(f"t{n}", city, 50.0, 5) for n, city in enumerate(_CITY_NAMES)]
    with tour.working("upsert of a trip in each city"):
        patient.upsert(_frame(tour, *rows))
    before = tour.table.read(tour.spark).count()
    plan = patient.schedule_compaction()
    assert plan is not None
    with tour.working(f"a process runs compaction {plan}, and is killed in the middle"):
        executor = _run_and_kill("killed_compaction", str(tour.place), plan)
    (stuck,) = patient.plans()
    say(f"killed process {executor}; {stuck.file_groups} file groups, two of them finished")
    with tour.working("the next one takes it over, once the heartbeat has been silent"):
        while (result := _run_unless_alive(patient, plan)) is None:
            time.sleep(_LOOK_AGAIN_S)  # only time makes an executor dead
    say(
        f"completed {result.instant}: {result.stats.files} base files, "
        f"{result.reused_items} of them adopted"
    )
    expect(result.reused_items == DONE_BEFORE, "what was finished is not done again")
    expect(tour.table.read(tour.spark).count() == before, "readers see the same rows")


def _run_unless_alive(table: Table, plan: str) -> ServiceResult | None:
    try:
        return table.run_compaction(plan)
    except PlanInProgress:
        return None


def _read_by_wheel(tour: Tour) -> None:
    if find_spec("hudi") is None:
        say(f"skipped: the wheel is not installed (pip install '{WHEEL}')")
        return
    import pyarrow as pa
    from hudi import HudiTableBuilder

    with tour.working("read by hudi-rs"):
        batches = HudiTableBuilder.from_base_uri(str(tour.place)).build().read()
        theirs = pa.Table.from_batches(batches).select(COLUMNS)
    ours = tour.table.to_arrow(columns=list(COLUMNS))
    order = [("trip_id", "ascending")]
    same = theirs.sort_by(order).to_pylist() == ours.sort_by(order).to_pylist()
    say(f"{theirs.num_rows:,} rows by hudi-rs, {ours.num_rows:,} by hoodoo: the same")
    expect(same, "the wheel reads the same rows")


STEPS = (
    TourStep(
        "Load",
        "A new merge-on-read table: key trip_id, one directory per city, and of two versions of a "
        "trip the one with the larger ts wins. A bulk insert writes new files in one pass.",
        _load,
    ),
    TourStep(
        "Upsert",
        "A corrected fare (t0), a correction that comes too late (t1: its ts is older, so it "
        "loses), and a new trip. Updates go to log files beside the base files.",
        _upsert,
    ),
    TourStep(
        "Two writers at once",
        "Writer A updates trip t2. While it writes, and holds no lock, writer B updates a trip in "
        "each city, t2 among them. One of them would fail when it commits: so the younger one is "
        "stopped now, while the older one is still writing. (B does not look when it begins, as "
        "writers do, but at its first file, so that it can be shown.)",
        _conflict,
    ),
    TourStep(
        "A conflict with a commit, and retries",
        "Now B commits while Spark still computes A's rows. A finds that commit, at its own at the "
        "latest, and fails with a WriteConflict instead of undoing B; but with "
        "hoodie.write.num.retries.on.conflict.failures=3 it starts over on the table as B left it.",
        _retry,
    ),
    TourStep(
        "A writer is killed",
        "Another process, with a Spark of its own, is killed by SIGKILL in the middle of a bulk "
        "insert, when some of its files are written. Readers see none of its rows.",
        _kill,
    ),
    TourStep(
        "Recovery",
        "Its heartbeat stops. Once it has been silent for long enough (here three seconds, by "
        "default ten minutes), recover() rolls it back; so would the next write.",
        _recover,
    ),
    TourStep(
        "Time travel",
        "The table as it was after the load.",
        _time_travel,
    ),
    TourStep(
        "Incremental read",
        "Only the rows that changed since the load: what a pipeline downstream needs.",
        _changes,
    ),
    TourStep(
        "A clustering gives way",
        "A clustering that puts small files together, in the order of fares, is planned as "
        "cancellable. Before anyone runs it a write comes to one of its file groups: it commits, "
        "and in the same step cancels the plan. (Others make such a write fail, or wait.)",
        _give_way,
    ),
    TourStep(
        "A compaction is resumed",
        "A compaction merges logs into base files; writes run one when it is due, and so does "
        "`hoodoo upkeep`. Here its executor is killed by SIGKILL. The next one adopts the files "
        "that were finished, and makes only the others.",
        _resume,
    ),
    TourStep(
        "An index is built while a writer runs",
        "A record index tells the file group of each key, so that upserts search no files. It is "
        "built while a writer is in the middle of its write; neither waits for the other, and the "
        "writer adds its row to the index when it commits.",
        build_index,
    ),
    TourStep(
        "Another engine reads it",
        "The same files read by hudi-rs, Apache Hudi's own library in Rust (the `hudi` wheel).",
        _read_by_wheel,
    ),
)


def _rows(tour: Tour, *rows: tuple[str, str, float, int]) -> Any:
    import pyarrow as pa

    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(records, tour.table.schema)


def _frame(tour: Tour, *rows: tuple[str, str, float, int]) -> Any:
    return tour.spark.createDataFrame(list(rows), SCHEMA)


def _show(tour: Tour, condition: str) -> None:
    rows = tour.table.read(tour.spark, filter=condition)
    show_rows(rows.select(*COLUMNS).orderBy("trip_id"))


def _fares(tour: Tour, *trips: str) -> list[float]:
    rows = tour.table.to_arrow(columns=["trip_id", "fare"]).to_pylist()
    fares = {row["trip_id"]: row["fare"] for row in rows}
    return [fares[trip] for trip in trips]


def _say_committed(commit: CommitResult) -> None:
    stats = commit.stats
    say(f"committed {commit.instant}: {stats.inserted:,} inserted, {stats.updated:,} updated")


def create(spark: Any, place: Path, name: str) -> Tour:
    """The tour's table, before the first step."""
    from hoodoo.api.create import create_table

    table = create_table(
        str(place),
        schema=spark.createDataFrame([], SCHEMA).schema,
        name=name,
        record_key="trip_id",
        partition_by="city",
        ordering="ts",
        table_type="mor",
    )
    return Tour(spark, place, table)
