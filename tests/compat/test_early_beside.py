"""Early conflict detection beside Apache Hudi's: on both sides the younger write gives way."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import FIRST, trips
from compat.peer_tables import MOR, OPERATION, PARTITION
from compat.shared_table import (
    AFTER_FIRST,
    DYING,
    OUR_LOCK,
    TOGETHER,
    check,
    hold_write,
    new_table,
    pending,
    silence,
)
from support.dead_writes import make_older
from support.paused_writes import pause_write
from support.processes import until

import hoodoo
from hoodoo.api.table import Table
from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instant
from hoodoo.errors import EarlyConflict, WriteConflict
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

MARKERS = "hoodie.write.markers.type"
EARLY = "hoodie.write.concurrency.early.conflict.detection"
ASYNC = "hoodie.write.concurrency.async.conflict.detector"
ONLY_TASKS_LOOK = {f"{ASYNC}.initial_delay_ms": "600000"}
NO_LOOK = {f"{EARLY}.enable": "false"}
ONE_RETRY = {"hoodie.write.num.retries.on.conflict.failures": "1"}
NO_ROLLBACK = {"hoodie.clean.failed.writes.policy": "NEVER"}
"""Nothing is rolled back ahead of a write, so that it meets what is dead."""

HUDI_REFUSED = "HoodieEarlyConflictDetectionException"
DIRECT = {MARKERS: "DIRECT"}
BATCHED = {MARKERS: "TIMELINE_SERVER_BASED"}
THEIR_DIRECT = DIRECT | {
    f"{EARLY}.enable": "true",
    f"{EARLY}.strategy": "org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy",
}
THEIR_BATCHED = BATCHED | {
    "hoodie.embed.timeline.server": "true",
    f"{EARLY}.enable": "true",
    f"{EARLY}.strategy": (
        "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy"
    ),
    f"{ASYNC}.initial_delay_ms": "0",
    f"{ASYNC}.period_ms": "100",
}
TIME_TO_LOOK = {"hoodie.markers.timeline_server_based.batch.interval_ms": "2000"}
"""Hudi looks beside its server, which asks what came of it when it writes markers: not earlier."""
LAYOUTS = {"direct": (DIRECT, THEIR_DIRECT), "batched": (BATCHED, THEIR_BATCHED)}
KINDS = [
    ("cow", "direct"),
    ("mor", "batched"),
    pytest.param("mor", "direct", marks=pytest.mark.nightly),
    pytest.param("cow", "batched", marks=pytest.mark.nightly),
]


def their_settings(kind: str, layout: str) -> dict[str, str]:
    """Hudi as one of many writers, with its own early detection."""
    return TOGETHER | LAYOUTS[layout][1] | (MOR if kind == "mor" else {})


def group_of(place: Path, city: str) -> str:
    """The one file group of a partition."""
    (base,) = {path.name.split("_")[0] for path in place.glob(f"city={city}/[!.]*.parquet")}
    return f"city={city}/{base}"


def refuse(place: Path, rows: pa.Table, **options: str) -> EarlyConflict:
    """Our upsert fails early: before it writes a file, and nothing of it is left."""
    storage = TracedStorage(open_storage(str(place)))
    table = Table(open_ref(str(place), OUR_LOCK | options, Env(storage)), LocalEngine(threads=1))
    known = pending(place)
    with pytest.raises(EarlyConflict) as told:
        table.upsert(rows)
    written = {op.path for op in storage.operations if op.verb in ("create", "put", "open_write")}
    assert all(path.startswith(".hoodie/") for path in written)
    assert pending(place) == known
    return told.value


def profile(place: Path, instant: str) -> set[str]:
    """The file groups that the workload profile of a pending write names."""
    ref = open_ref(str(place))
    found = ref.load_timeline().find(InstantTime(instant))
    assert found is not None
    other = load_concurrent_instant(ref.env, ref.properties.timeline_paths, found)
    assert other is not None
    return {str(group) for group in other.group_effects}


# -- Hudi was there before ------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "layout"), KINDS)
def test_we_give_way_to_hudi_and_write_after_it(
    hudi: Peer, tmp_path: Path, kind: str, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    new_table(tmp_path, kind).insert(trips(*FIRST))
    group = group_of(tmp_path, "sf")
    caplog.set_level("INFO", "hoodoo.write")
    with hold_write(hudi, tmp_path, trips("a sf 2 11"), their_settings(kind, layout)) as theirs:
        assert profile(tmp_path, theirs.instant) == {group}
        for options in ({}, ONLY_TASKS_LOOK):
            conflict = refuse(tmp_path, trips("b sf 2 21"), **options)
            assert conflict.conflicting_instants == (theirs.instant,)
            assert conflict.file_groups == (group,)
            assert theirs.instant in str(conflict)
            assert group in str(conflict)
        hoodoo.open_table(str(tmp_path), OUR_LOCK).upsert(trips("c la 2 31"))

        patient = hoodoo.open_table(str(tmp_path), OUR_LOCK | ONE_RETRY)
        with ThreadPoolExecutor(1) as pool:
            ours = pool.submit(patient.upsert, trips("b sf 2 21"))
            until("we wait", lambda: "conflict retry=1" in caplog.text, within_s=30)
            theirs.go_on()
            ours.result(60)
    check(hudi, tmp_path, "a 2 11", "b 2 21", "c 2 31", "d 1 40", "e 1 50")


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "layout"), KINDS)
def test_we_give_way_where_only_markers_of_hudi_tell(
    hudi: Peer, tmp_path: Path, kind: str, layout: str
) -> None:
    """New rows for a small file: the workload profile says how many, not where."""
    new_table(tmp_path, kind).insert(trips(*FIRST))
    group = group_of(tmp_path, "sf")
    settings = their_settings(kind, layout) | {OPERATION: "insert"}
    with hold_write(hudi, tmp_path, trips("n sf 1 60"), settings) as theirs:
        assert profile(tmp_path, theirs.instant) == set()
        assert (theirs.markers / "MARKERS0").exists() == (layout == "batched")
        for options in ({}, ONLY_TASKS_LOOK):
            conflict = refuse(tmp_path, trips("b sf 2 21"), **options)
            assert conflict.conflicting_instants == (theirs.instant,)
            assert conflict.file_groups == (group,)
        hoodoo.open_table(str(tmp_path), OUR_LOCK).upsert(trips("c la 2 31"))
        theirs.go_on()
    check(hudi, tmp_path, "a 1 10", "b 1 20", "c 2 31", "d 1 40", "e 1 50", "n 1 60")


# -- we were there before -------------------------------------------------------------------------


def refuse_hudi(hudi: Peer, place: Path, rows: pa.Table, settings: dict[str, str]) -> str:
    """Hudi's write fails by its early detection, before it writes a file; its instant."""
    known = set(pending(place))
    with pytest.raises(PeerError, match=HUDI_REFUSED):
        hudi.write(place, rows, settings | TIME_TO_LOOK)
    (instant,) = set(pending(place)) - known
    assert all(".hoodie" in path.parts for path in place.rglob(f"*{instant}*"))
    return instant


@pytest.mark.parametrize(("kind", "layout"), KINDS)
def test_hudi_gives_way_to_us(hudi: Peer, tmp_path: Path, kind: str, layout: str) -> None:
    new_table(tmp_path, kind).insert(trips(*FIRST))
    ours, settings = LAYOUTS[layout][0], their_settings(kind, layout)
    with pause_write(
        tmp_path, lambda t: t.upsert(trips("a sf 2 11")), options=OUR_LOCK | ours
    ) as held:
        hudi.write(tmp_path, trips("c la 2 31"), settings | TIME_TO_LOOK)  # another file group
        refuse_hudi(hudi, tmp_path, trips("b sf 2 21"), settings)
        held.go_on()
    check(hudi, tmp_path, "a 2 11", "b 1 20", "c 2 31", "d 1 40", "e 1 50")
    hudi.write(tmp_path, trips("b sf 3 22"), settings)
    check(hudi, tmp_path, "a 2 11", "b 3 22", "c 2 31", "d 1 40", "e 1 50")


@pytest.mark.nightly
@pytest.mark.parametrize(("ours", "layout"), [(BATCHED, "direct"), (DIRECT, "batched")])
def test_hudi_reads_markers_of_its_own_layout_only(
    hudi: Peer, tmp_path: Path, ours: dict[str, str], layout: str
) -> None:
    """A limit (docs/compatibility.md); then the gate decides, for whoever comes first."""
    new_table(tmp_path, "cow").insert(trips(*FIRST))
    with pause_write(
        tmp_path, lambda t: t.upsert(trips("a sf 2 11")), options=OUR_LOCK | ours
    ) as held:
        hudi.write(tmp_path, trips("b sf 2 21"), their_settings("cow", layout) | TIME_TO_LOOK)
        with pytest.raises(WriteConflict):
            held.go_on()
    check(hudi, tmp_path, "a 1 10", "b 2 21", *AFTER_FIRST[2:])


@pytest.mark.nightly
def test_hudi_takes_us_for_dead_by_its_own_settings(hudi: Peer, tmp_path: Path) -> None:
    """A limit: told to expect a beat every second, it gives up on ours, which come each minute."""
    new_table(tmp_path, "cow").insert(trips(*FIRST))
    settings = their_settings("cow", "direct") | {"hoodie.client.heartbeat.interval_in_ms": "1000"}
    with pause_write(tmp_path, lambda t: t.upsert(trips("a sf 2 11")), options=OUR_LOCK) as held:
        make_older(tmp_path / paths.heartbeat(held.instant), 30)
        hudi.write(tmp_path, trips("b sf 2 21"), settings)
        with pytest.raises(WriteConflict):
            held.go_on()
    check(hudi, tmp_path, "a 1 10", "b 2 21", *AFTER_FIRST[2:])


@pytest.mark.nightly
def test_hudi_needs_the_directory_of_markers_to_look(hudi: Peer, tmp_path: Path) -> None:
    """A limit: a table of ours that nobody has written to has none, as storage has no directories.

    Its own tables have it from the first; so have ours after a write of ours, or of Hudi's without
    early detection.
    """
    new_table(tmp_path, "cow")
    assert not (tmp_path / ".hoodie/.temp").exists()
    settings = their_settings("cow", "direct")
    with pytest.raises(PeerError, match="FileNotFoundException"):
        hudi.write(tmp_path, trips(*FIRST), settings)
    (tmp_path / ".hoodie/.temp").mkdir(exist_ok=True)
    hudi.write(tmp_path, trips(*FIRST), settings)
    check(hudi, tmp_path, *AFTER_FIRST)


# -- silence --------------------------------------------------------------------------------------


def by_date(*lines: str) -> pa.Table:
    """Rows whose partitions have an underscore in their paths; the second word is a date."""
    return trips(*lines).rename_columns(["id", "event_date", "ts", "fare"])


@pytest.mark.nightly
def test_hudi_alone_raises_false_alarms_where_partitions_have_underscores(
    hudi: Peer, tmp_path: Path
) -> None:
    """Its asynchronous strategy cuts names at the first underscore: all of them are `event`."""
    table = hoodoo.create_table(
        str(tmp_path),
        schema=by_date("a 2026-01-01 1 1").schema,
        name="trips",
        record_key="id",
        partition_by="event_date",
        ordering="ts",
        options=OUR_LOCK | BATCHED,
    )
    table.insert(by_date("a 2026-01-01 1 10", "b 2026-01-02 1 20"))
    settings = their_settings("cow", "batched") | {PARTITION: "event_date"}
    with hold_write(hudi, tmp_path, by_date("a 2026-01-01 2 11"), settings) as theirs:
        table.upsert(by_date("b 2026-01-02 2 21"))
        theirs.go_on()

    def upsert(table: hoodoo.Table) -> object:
        return table.upsert(by_date("a 2026-01-01 3 12"))

    with pause_write(tmp_path, upsert, options=OUR_LOCK | BATCHED) as ours:
        refuse_hudi(hudi, tmp_path, by_date("b 2026-01-02 3 22"), settings)
        refuse_hudi(hudi, tmp_path, by_date("c 2026-01-03 1 30"), settings)
        direct = their_settings("cow", "direct") | {PARTITION: "event_date"}
        hudi.write(tmp_path, by_date("c 2026-01-03 1 30"), direct)
        ours.go_on()
    check(hudi, tmp_path, "a 3 12", "b 2 21", "c 1 30")


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_markers_of_a_finished_write_of_hudi_mean_nothing(
    hudi: Peer, tmp_path: Path, layout: str
) -> None:
    table = new_table(tmp_path, "cow", OUR_LOCK)
    table.insert(trips(*FIRST))
    saved = tmp_path.with_name(f"{tmp_path.name}-markers")
    settings = their_settings("cow", layout)
    with hold_write(hudi, tmp_path, trips("a sf 2 11"), settings) as theirs:
        shutil.copytree(theirs.markers, saved)
        theirs.go_on()
    shutil.copytree(saved, theirs.markers)
    (tmp_path / paths.heartbeat(InstantTime(theirs.instant))).touch()
    table.upsert(trips("b sf 2 21"))
    check(hudi, tmp_path, "a 2 11", "b 2 21", *AFTER_FIRST[2:])


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dead_write_of_hudi_is_in_nobody_s_way(hudi: Peer, tmp_path: Path, layout: str) -> None:
    table = new_table(tmp_path, "cow", OUR_LOCK | NO_ROLLBACK)
    table.insert(trips(*FIRST))
    with pytest.raises(PeerError, match="pre-commit validation failed"):
        hudi.write(tmp_path, trips("a sf 2 11"), their_settings("cow", layout) | DYING)
    (dead,) = pending(tmp_path)
    assert refuse(tmp_path, trips("b sf 2 21"), **NO_ROLLBACK).conflicting_instants == (dead,)
    silence(tmp_path, dead)
    table.upsert(trips("b sf 2 21"))
    assert pending(tmp_path) == [dead]
    check(hudi, tmp_path, "a 1 10", "b 2 21", *AFTER_FIRST[2:])


def test_a_write_of_hudi_that_was_refused_is_in_nobody_s_way(hudi: Peer, tmp_path: Path) -> None:
    """It takes its heartbeat away, and leaves the rest pending: nobody is at work on it."""
    new_table(tmp_path, "cow").insert(trips(*FIRST))
    settings = their_settings("cow", "direct")
    with hold_write(hudi, tmp_path, trips("a sf 2 11"), settings) as theirs:
        hoodoo.open_table(str(tmp_path), OUR_LOCK | NO_LOOK).upsert(trips("b sf 2 21"))
        with pytest.raises(PeerError, match="ConcurrentModificationException"):
            theirs.go_on()
    assert pending(tmp_path) == [theirs.instant]
    hoodoo.open_table(str(tmp_path), OUR_LOCK).upsert(trips("b sf 3 22"))
    check(hudi, tmp_path, "a 1 10", "b 3 22", *AFTER_FIRST[2:])


def test_a_write_of_hudi_that_gave_way_is_in_our_way_until_its_winner_commits(
    hudi: Peer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Unlike one that is refused in the gate it leaves its heartbeat behind, and looks alive."""
    new_table(tmp_path, "cow").insert(trips(*FIRST))
    caplog.set_level("INFO", "hoodoo.write")
    with (
        ThreadPoolExecutor(1) as pool,
        pause_write(tmp_path, lambda t: t.upsert(trips("a sf 2 11")), options=OUR_LOCK) as ours,
    ):
        left = refuse_hudi(hudi, tmp_path, trips("b sf 2 21"), their_settings("cow", "direct"))
        assert refuse(tmp_path, trips("b sf 2 21")).conflicting_instants == (ours.instant, left)
        patient = hoodoo.open_table(str(tmp_path), OUR_LOCK | ONE_RETRY)
        waiting = pool.submit(patient.upsert, trips("b sf 3 22"))
        until("we wait", lambda: "conflict retry=1" in caplog.text, within_s=30)
        ours.go_on()
        waiting.result(30)
    hoodoo.open_table(str(tmp_path), OUR_LOCK).upsert(trips("a sf 3 12"))
    assert pending(tmp_path) == [left]
    check(hudi, tmp_path, "a 3 12", "b 3 22", *AFTER_FIRST[2:])


# -- other tables ---------------------------------------------------------------------------------


BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_find_each_other_in_a_table_without_partitions(
    hudi: Peer, tmp_path: Path, layout: str
) -> None:
    table = hoodoo.create_table(
        str(tmp_path), schema=trips("a sf 1 1").schema, name="trips", record_key="id", ordering="ts"
    )
    table.insert(trips(*FIRST))
    theirs = {
        key: value for key, value in their_settings("cow", layout).items() if key != PARTITION
    }
    with hold_write(hudi, tmp_path, trips("a sf 2 11"), theirs) as held:
        for options in ({}, ONLY_TASKS_LOOK):
            assert refuse(tmp_path, trips("b sf 2 21"), **options).conflicting_instants == (
                held.instant,
            )
        held.go_on()
    ours = OUR_LOCK | LAYOUTS[layout][0]
    with pause_write(tmp_path, lambda t: t.upsert(trips("a sf 3 12")), options=ours) as paused:
        refuse_hudi(hudi, tmp_path, trips("b sf 3 22"), theirs)
        paused.go_on()
    check(hudi, tmp_path, "a 3 12", *AFTER_FIRST[1:])


@pytest.mark.nightly
@pytest.mark.parametrize("layout", LAYOUTS)
def test_buckets_are_the_same_whoever_makes_them(hudi: Peer, tmp_path: Path, layout: str) -> None:
    """New buckets of a partition: file ids differ, and only their first digits tell."""
    new_table(tmp_path, "cow", BUCKETS | OUR_LOCK).insert(trips(*FIRST))
    theirs = their_settings("cow", layout) | BUCKETS
    with hold_write(hudi, tmp_path, trips("m rome 1 60"), theirs) as held:
        assert profile(tmp_path, held.instant) == set()
        for options in (BUCKETS, BUCKETS | ONLY_TASKS_LOOK):
            assert refuse(tmp_path, trips("m rome 2 61"), **options).conflicting_instants == (
                held.instant,
            )
        held.go_on()
    check(hudi, tmp_path, *AFTER_FIRST, "m 1 60")
