"""Early conflict detection: of two writes on a file group, the younger gives way while both run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.writer_machines import EXPIRY_S, Fleet, Machine, begin_commit, rows

from hoodoo.concurrency.conflicts.early_detection import (
    DetectionSettings,
    EarlyConflictDetector,
    find_early_conflicts,
)
from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffect,
    InstantKind,
    PublishingInstant,
)
from hoodoo.concurrency.conflicts.writes_in_progress import LiveWrite
from hoodoo.concurrency.heartbeats import WriterStatus
from hoodoo.concurrency.markers import announce
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.config.concurrency import ConflictStrategy, DetectionStrategy, MarkerType
from hoodoo.errors import EarlyConflict, StorageError, WriteConflict
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import BaseFileName, FileId, MarkerKind, MarkerName, WriteToken
from hoodoo.model.paths import PartitionPath
from hoodoo.read.snapshot import take_snapshot
from hoodoo.recovery.rollback import schedule_rollback

ON = {"hoodie.write.concurrency.early.conflict.detection.enable": True}
STRATEGY = "hoodie.write.concurrency.early.conflict.detection.strategy"
DELAY = "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms"
PERIOD = "hoodie.write.concurrency.async.conflict.detector.period_ms"
CHECK_COMMIT = "hoodie.write.concurrency.early.conflict.check.commit.conflict"
MARKERS = "hoodie.write.markers.type"
LATER = {DELAY: 1}  # the begin does not look: what follows has to find it
BATCHED = {MARKERS: "timeline_server_based"}

STRATEGIES = pytest.mark.parametrize("strategy", [each.value for each in DetectionStrategy])
DIRECT = pytest.mark.parametrize(
    "strategy", [each.value for each in DetectionStrategy if each.looks_in_tasks]
)
LAYOUTS = pytest.mark.parametrize("layout", ["direct", "timeline_server_based"])
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def make_fleet(kind: str = "cow", **options: object) -> Fleet:
    fleet = Fleet(kind, **{**ON, **options})
    fleet.machine("founder").table.insert(rows("a", k1=1, k2=2))
    return fleet


def meanwhile(older: Machine, act: Callable[[], object], *, at: str = "written") -> None:
    """Have something done once, when a write of this machine has come to a point of its way."""

    def before(verb: str, path: str) -> None:
        is_data = path.endswith(".parquet") or ".log." in path
        is_marker = "/.temp/" in path and "MARKERS" not in path
        reached = {
            "written": verb == "stat" and is_data and not is_marker,  # finalize looks at its files
            "announced": verb == "create" and ("/.temp/" in path),
        }
        if reached[at]:
            older.storage.leave_alone()
            act()

    older.storage.before(before)


def group_of(machine: Machine, partition: str = "part=a") -> FileGroupId:
    """The file group of a partition that has one."""
    groups = [piece.group for piece in take_snapshot(machine.ref).slices()]
    (group,) = (group for group in groups if group.partition == partition)
    return group


def announce_update(
    machine: Machine, attempt: Attempt, group: FileGroupId, *, layout: str = "direct"
) -> None:
    """A marker as a write has it that merges rows into a file group."""
    time = attempt.instant.requested_time
    name = BaseFileName(group.file_id, WriteToken("0-1-0"), time)
    marker = MarkerName(f"{group.partition}/{name}", MarkerKind.MERGE)
    announce(machine.ref.env, time, [marker], type=MarkerType(layout))


def refused(machine: Machine, act: Callable[[], object]) -> EarlyConflict:
    """The conflict that a write fails with early, leaving nothing behind."""
    files, pending = set(data_files(machine)), pending_times(machine)
    with pytest.raises(EarlyConflict) as caught:
        act()
    assert set(data_files(machine)) == files
    assert pending_times(machine) == pending
    return caught.value


def data_files(machine: Machine) -> Iterator[str]:
    for entry in machine.ref.env.storage.list("", recursive=True):
        if not entry.path.startswith(".hoodie") and ".parquet" in entry.path:
            yield entry.path


def pending_times(machine: Machine) -> set[str]:
    return {instant.requested_time for instant in machine.ref.load_timeline().pending}


# -- at the begin -------------------------------------------------------------------------------


@KINDS
@STRATEGIES
def test_a_younger_write_of_the_same_file_group_does_not_begin(kind: str, strategy: str) -> None:
    fleet = make_fleet(kind, **{STRATEGY: strategy})
    older, younger = fleet.machine("old"), fleet.machine("young")
    found: list[EarlyConflict] = []
    meanwhile(
        older, lambda: found.append(refused(younger, lambda: younger.table.upsert(rows(k1=5))))
    )
    done = older.table.upsert(rows(k2=6))
    (conflict,) = found
    assert conflict.conflicting_instants == (done.instant,)
    assert conflict.file_groups == (str(group_of(older)),)
    assert "in progress by test app on old, process 7" in str(conflict)
    assert older.rows() == {"k1": 1, "k2": 6}


@KINDS
def test_writes_of_different_file_groups_both_commit(kind: str) -> None:
    fleet = make_fleet(kind)
    fleet.machine("founder").table.insert(rows("b", k3=3))
    older, younger = fleet.machine("old"), fleet.machine("young")
    meanwhile(older, lambda: younger.table.upsert(rows("b", k3=30)))
    older.table.upsert(rows("a", k1=10))
    assert older.rows() == {"k1": 10, "k2": 2, "k3": 30}


def test_partitions_with_underscores_are_told_apart() -> None:
    fleet = make_fleet()
    for part in ("2026_01", "2026_02"):
        fleet.machine("founder").table.insert(rows(part, **{f"k{part}": 1}))
    older, younger = fleet.machine("old"), fleet.machine("young")
    meanwhile(older, lambda: younger.table.upsert(rows("2026_02", k2026_02=5)))
    older.table.upsert(rows("2026_01", k2026_01=5))
    assert older.rows()["k2026_02"] == 5


def test_an_older_write_that_died_is_no_conflict() -> None:
    fleet = make_fleet(**{"hoodie.clean.failed.writes.policy": "LAZY"})
    dead, younger = fleet.machine("dead"), fleet.machine("young")
    attempt = begin_commit(dead)
    announce_update(dead, attempt, group_of(dead))
    fleet.die(dead)
    younger.table.upsert(rows(k1=5))
    assert younger.rows() == {"k1": 5, "k2": 2}


def test_an_older_write_that_is_being_rolled_back_is_no_conflict() -> None:
    """It fails, and says so before its heartbeat goes."""
    fleet = make_fleet(**{"hoodie.clean.failed.writes.policy": "LAZY"})
    older, younger = fleet.machine("old"), fleet.machine("young")
    attempt = begin_commit(older)
    announce_update(older, attempt, group_of(older))
    refused(younger, lambda: younger.table.upsert(rows(k1=5)))
    with transaction(older.ref, "roll back") as txn:
        schedule_rollback(txn, older.ref, attempt.instant)
    younger.table.upsert(rows(k1=5))


def test_of_two_writes_only_the_younger_one_conflicts() -> None:
    group = FileGroupId(PartitionPath("p"), FileId("f-0"))
    times = InstantTime("1" * 17), InstantTime("2" * 17)

    def peer(time: InstantTime) -> LiveWrite:
        instant = Instant(time, Action.COMMIT, State.INFLIGHT)
        other = ConcurrentInstant(
            instant, InstantKind.INGESTION, "UPSERT", {group: GroupEffect.REWRITE}
        )
        return LiveWrite(other, WriterStatus(0, 1000))

    def conflicts(mine: InstantTime, other: InstantTime) -> list[InstantTime]:
        found = find_early_conflicts(
            ConflictStrategy.SIMPLE,
            PublishingInstant(mine, InstantKind.INGESTION, {group: GroupEffect.REWRITE}),
            (),
            [peer(other)],
        )
        return [conflict.concurrent.time for conflict in found]

    assert conflicts(times[1], times[0]) == [times[0]]
    assert conflicts(times[0], times[1]) == []


def test_detection_can_be_switched_off() -> None:
    for off in (
        {"hoodie.write.lock.early.conflict.detection.enable": False},
        {"hoodie.write.concurrency.mode": "single_writer"},
    ):
        fleet = Fleet("cow")
        del fleet.options["hoodie.write.concurrency.early.conflict.detection.enable"]
        fleet.machine("founder").table.insert(rows("a", k1=1, k2=2))
        older, younger = fleet.machine("old"), fleet.machine("young", **off)
        meanwhile(older, lambda younger=younger: younger.table.upsert(rows(k1=5)))
        with pytest.raises(WriteConflict) as caught:
            older.table.upsert(rows(k2=6))
        assert not isinstance(caught.value, EarlyConflict)


# -- by markers ---------------------------------------------------------------------------------


@DIRECT
@LAYOUTS
def test_a_task_finds_the_marker_of_an_older_write(strategy: str, layout: str) -> None:
    fleet = make_fleet(**{STRATEGY: strategy, **LATER})
    older, younger = fleet.machine("old"), fleet.machine("young", **{MARKERS: layout})
    attempt = begin_commit(older)
    announce_update(older, attempt, group_of(older), layout=layout)
    conflict = refused(younger, lambda: younger.table.upsert(rows(k1=5)))
    assert conflict.conflicting_instants == (attempt.instant.requested_time,)


@STRATEGIES
@LAYOUTS
def test_the_driver_finds_a_marker_that_came_later(strategy: str, layout: str) -> None:
    """The younger one has looked before the older one announced anything."""
    fleet = make_fleet(**{STRATEGY: strategy, PERIOD: 1_000})
    older, younger = fleet.machine("old"), fleet.machine("young", **{MARKERS: layout})
    attempt, group = begin_commit(older), group_of(older)

    def later() -> None:
        announce_update(older, attempt, group, layout=layout)
        fleet.world.pass_time(2)

    meanwhile(younger, later, at="announced")
    conflict = refused(younger, lambda: younger.table.upsert(rows(k1=5)))
    assert conflict.conflicting_instants == (attempt.instant.requested_time,)


@STRATEGIES
def test_a_younger_write_is_never_in_the_way(strategy: str) -> None:
    fleet = make_fleet(**{STRATEGY: strategy, PERIOD: 1_000})
    older, younger = fleet.machine("old"), fleet.machine("young")
    group = group_of(older)

    def later() -> None:
        announce_update(younger, begin_commit(younger), group)
        fleet.world.pass_time(2)

    meanwhile(older, later, at="announced")
    older.table.upsert(rows(k1=5))


@STRATEGIES
def test_markers_of_instants_that_have_ended_mean_nothing(strategy: str) -> None:
    fleet = make_fleet(**{STRATEGY: strategy, **LATER})
    older, younger = fleet.machine("old"), fleet.machine("young")
    attempt, group = begin_commit(older), group_of(older)
    announce_update(older, attempt, group)
    fleet.store.delete(f".hoodie/timeline/{attempt.instant.requested_time}.commit.requested")
    fleet.store.delete(f".hoodie/timeline/{attempt.instant.requested_time}.inflight")
    younger.table.upsert(rows(k1=5))
    assert younger.rows() == {"k1": 5, "k2": 2}


def test_a_marker_of_another_instants_file_is_foreign() -> None:
    fleet = make_fleet(**LATER)
    older, younger = fleet.machine("old"), fleet.machine("young")
    attempt, group = begin_commit(older), group_of(older)
    name = BaseFileName(
        group.file_id, WriteToken("0-1-0"), begin_commit(older).instant.requested_time
    )
    marker = MarkerName(f"{group.partition}/{name}", MarkerKind.MERGE)
    time = attempt.instant.requested_time
    announce(older.ref.env, time, [marker], type=MarkerType.DIRECT)
    younger.table.upsert(rows(k1=5))


# -- overwrites and buckets ---------------------------------------------------------------------


@KINDS
def test_update_fails_early_when_older_overwrite_replaces_its_group(kind: str) -> None:
    fleet = make_fleet(kind)
    older, younger = fleet.machine("old"), fleet.machine("young")
    found: list[EarlyConflict] = []
    meanwhile(
        older, lambda: found.append(refused(younger, lambda: younger.table.upsert(rows(k1=5))))
    )
    older.table.insert_overwrite(rows(k9=9))
    assert "it replaces" in str(found[0])
    assert older.rows() == {"k9": 9}


@KINDS
def test_an_overwrite_gives_way_to_an_older_write_that_adds_rows(kind: str) -> None:
    fleet = make_fleet(kind, **{"hoodie.parquet.small.file.limit": 0})
    older, younger = fleet.machine("old"), fleet.machine("young")
    found: list[EarlyConflict] = []
    meanwhile(
        older,
        lambda: found.append(refused(younger, lambda: younger.table.insert_overwrite(rows(k9=9)))),
    )
    older.table.insert(rows(k3=3))
    assert "it adds rows in" in str(found[0])
    assert older.rows() == {"k1": 1, "k2": 2, "k3": 3}


@KINDS
def test_rows_for_new_file_groups_do_not_wait_for_an_overwrite(kind: str) -> None:
    """If they come first, the overwrite has not seen them, and has to be done again."""
    fleet = make_fleet(kind, **{"hoodie.parquet.small.file.limit": 0})
    older, younger = fleet.machine("old"), fleet.machine("young")
    meanwhile(older, lambda: younger.table.insert(rows(k3=3)))
    with pytest.raises(WriteConflict, match="it adds rows in"):
        older.table.insert_overwrite(rows(k9=9))
    assert older.rows() == {"k1": 1, "k2": 2, "k3": 3}


@KINDS
def test_two_writes_that_make_the_same_bucket_meet_early(kind: str) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 1}
    fleet = make_fleet(kind, **buckets)
    older, younger = fleet.machine("old"), fleet.machine("young")
    found: list[EarlyConflict] = []
    meanwhile(
        older,
        lambda: found.append(refused(younger, lambda: younger.table.upsert(rows("new", k5=5)))),
    )
    older.table.upsert(rows("new", k6=6))
    assert len(found) == 1


# -- commits, plans, restores -------------------------------------------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_a_commit_that_came_meanwhile_stops_an_older_write(checks: bool) -> None:
    fleet = make_fleet(**{PERIOD: 1_000, CHECK_COMMIT: checks})
    older = fleet.machine("old")
    younger = fleet.machine(
        "young", **{"hoodie.write.concurrency.early.conflict.detection.enable": False}
    )

    def later() -> None:
        younger.table.upsert(rows(k1=5))
        fleet.world.pass_time(2)

    meanwhile(older, later, at="announced")
    with pytest.raises(WriteConflict) as caught:
        older.table.upsert(rows(k2=6))
    assert isinstance(caught.value, EarlyConflict) == checks


@pytest.mark.parametrize("cancellable", [True, False])
def test_only_a_plan_that_stays_stops_a_write(cancellable: bool) -> None:
    """Planners avoid file groups that are written to; those of other engines may not."""
    fleet = make_fleet()
    writer, planner = fleet.machine("writer"), fleet.machine("planner")
    planned_on, group = writer.ref.load_timeline(), group_of(writer)
    assert planner.table.schedule_clustering(order_by="v", cancellable=cancellable)
    detection = DetectionSettings.of(writer.ref)
    assert detection is not None
    mine = PublishingInstant(
        InstantTime("2" * 17), InstantKind.INGESTION, {group: GroupEffect.REWRITE}
    )
    detector = EarlyConflictDetector(
        writer.ref, mine, ConflictStrategy.SIMPLE, detection, planned_on=planned_on
    )
    if cancellable:
        detector.look()
    else:
        with pytest.raises(EarlyConflict, match="it is pending and will replace"):
            detector.look()


def test_the_executor_of_a_cancellable_plan_looks_for_writes() -> None:
    """It stops at its next look, not in its gate."""
    fleet = make_fleet(**{PERIOD: 1_000})
    executor, writer = fleet.machine("executor"), fleet.machine("writer")
    plan = executor.table.schedule_clustering(order_by="v", cancellable=True)
    assert plan is not None
    group = group_of(writer)

    def later() -> None:
        meanwhile(writer, lambda: fleet.world.pass_time(2))
        writer.table.upsert(rows(k1=5))

    meanwhile(executor, later, at="announced")
    with pytest.raises(WriteConflict) as caught:
        executor.table.run_clustering(plan)
    assert isinstance(caught.value, EarlyConflict)
    assert str(group) in caught.value.file_groups
    assert writer.rows() == {"k1": 5, "k2": 2}


# -- what cannot be read ------------------------------------------------------------------------


def test_a_look_that_fails_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    fleet = make_fleet(**{PERIOD: 1_000, **BATCHED})
    older, younger = fleet.machine("old"), fleet.machine("young")
    attempt, group = begin_commit(older), group_of(older)
    broken = 2

    def before(verb: str, path: str) -> None:
        nonlocal broken
        if verb == "read" and "MARKERS" in path and older.ref is not None and broken:
            broken -= 1
            raise StorageError(path, "someone writes to it")

    def later() -> None:
        announce_update(older, attempt, group, layout="timeline_server_based")
        younger.storage.before(before)
        fleet.world.pass_time(5)

    meanwhile(younger, later, at="announced")
    conflict = refused(younger, lambda: younger.table.upsert(rows(k1=5)))
    assert conflict.conflicting_instants == (attempt.instant.requested_time,)
    assert not broken
    assert "markers_not_read" in caplog.text


# -- strategies of their own --------------------------------------------------------------------


@contextmanager
def counting(machine: Machine) -> Iterator[list[tuple[str, str]]]:
    """The operations of a machine on single objects."""
    seen: list[tuple[str, str]] = []
    machine.storage.before(lambda verb, path: seen.append((verb, path)))
    yield seen
    machine.storage.leave_alone()


@pytest.mark.parametrize("bloom", ["right", "absent", "damaged"])
def test_a_bloom_filter_spares_the_markers(bloom: str) -> None:
    fleet = make_fleet(**{STRATEGY: "bloom_direct", **BATCHED, **LATER})
    fleet.machine("founder").table.insert(rows("b", k3=3))
    older, younger = fleet.machine("old"), fleet.machine("young")
    seen: list[Any] = []

    def later() -> None:
        path = paths.group_bloom(max(pending_times(older)))
        if bloom == "absent":
            fleet.store.delete(path)
        if bloom == "damaged":
            fleet.store.put(path, b"?")
        with counting(younger) as operations:
            younger.table.upsert(rows("b", k3=30))
        mine = {p.split("/")[2] for verb, p in operations if verb == "create" and "/.temp/" in p}
        theirs = [p for verb, p in operations if verb == "read" and "/MARKERS" in p]
        seen.extend(p for p in theirs if p.split("/")[2] not in mine)

    meanwhile(older, later)
    older.table.upsert(rows("a", k1=10))
    assert bool(seen) == (bloom != "right")
    assert older.rows() == {"k1": 10, "k2": 2, "k3": 30}
    assert not list(fleet.store.list(paths.BLOOMS))


def test_a_transactional_task_holds_the_lock_of_its_file_group() -> None:
    fleet = make_fleet(**{STRATEGY: "transactional_direct", **LATER})
    older, younger = fleet.machine("old"), fleet.machine("young")
    begin_commit(older)
    held: list[int] = []

    def before(verb: str, path: str) -> None:
        if verb == "create" and "/.temp/" in path:
            held.append(len(list(fleet.store.list(paths.GROUP_LOCKS))))

    younger.storage.before(before)
    younger.table.upsert(rows(k1=5))
    assert held == [1]
    assert not list(fleet.store.list(paths.GROUP_LOCKS))


def test_an_undisturbed_write_has_no_more_operations_than_before() -> None:
    counts = []
    for on in (True, False):
        fleet = make_fleet(**{"hoodie.write.concurrency.early.conflict.detection.enable": on})
        writer = fleet.machine("writer")
        with counting(writer) as seen:
            writer.table.upsert(rows(k1=5))
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_expiry_is_that_of_recovery() -> None:
    """Nobody gives way to a write that the next recovery rolls back."""
    fleet = make_fleet(**{"hoodie.clean.failed.writes.policy": "LAZY"})
    older, younger = fleet.machine("old"), fleet.machine("young")
    attempt = begin_commit(older)
    announce_update(older, attempt, group_of(older))
    older.clock.is_stopped = True
    fleet.world.pass_time(EXPIRY_S - 5)
    refused(younger, lambda: younger.table.upsert(rows(k1=5)))
    fleet.world.pass_time(10)
    younger.table.upsert(rows(k1=5))
