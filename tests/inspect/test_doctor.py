"""The doctor: what is wrong is found, with the command that repairs it, and the repair works."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.writer_machines import COMPLETED, Fleet, Machine, PowerCut, cut_power_at, rows

from hoodoo.errors import StorageError
from hoodoo.inspect.doctor import Finding, diagnose
from hoodoo.model import paths
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.repairs import Repair, run_repair

MANUAL = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
DAY_S = 86_400


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet("mor", **MANUAL)
    writer = fleet.machine("writer")
    writer.table.insert(rows(a=1))
    writer.table.insert(rows(b=1))
    writer.table.upsert(rows(a=2))
    return fleet


def die_over(fleet: Fleet, work: Callable[[Machine], object], at: str = "head$") -> None:
    """Someone dies over this, and enough time passes for others to notice.

    Its lock goes with it.
    """
    victim = fleet.machine("victim", **{"hoodie.write.lock.provider": "in_process"})
    cut_power_at(victim, "replace|create", at)
    with pytest.raises(PowerCut):
        work(victim)
    fleet.die(victim)


def look(fleet: Fleet) -> list[Finding]:
    return diagnose(fleet.machine("doctor").ref, "trips")


def repair_all(fleet: Fleet) -> list[str]:
    """Do what was found to be done, and expect a healthy table."""
    doctor = fleet.machine("doctor")
    done = [
        run_repair(doctor.ref, LocalEngine(threads=1), each.repair, each.instant)
        for each in look(fleet)
    ]
    assert look(fleet) == []
    return done


def test_a_healthy_table(fleet: Fleet) -> None:
    assert look(fleet) == []


def test_a_dead_write(fleet: Fleet) -> None:
    die_over(fleet, lambda victim: victim.table.upsert(rows(a=3)))
    (found,) = look(fleet)
    assert found.problem == f"deltacommit {found.instant} is a dead write"
    assert "test app on victim, process 7 (upsert, begin)" in found.cause
    assert found.command == "hoodoo recover trips"
    assert repair_all(fleet)[0].startswith("recover: 1 rolled back")
    assert fleet.machine("reader").rows() == {"a": 2, "b": 1}


def test_a_decision_that_was_not_carried_out(fleet: Fleet) -> None:
    die_over(fleet, lambda victim: victim.table.upsert(rows(a=3)), at=COMPLETED)
    found = look(fleet)
    assert found[0].problem.endswith("is unfinished")
    assert "was taken and not carried out" in found[0].cause
    repair_all(fleet)
    assert fleet.machine("reader").rows() == {"a": 3, "b": 1}


def test_a_rollback_that_was_cut_off(fleet: Fleet) -> None:
    die_over(fleet, lambda victim: victim.table.upsert(rows(a=3)))
    die_over(fleet, lambda victim: victim.table.recover(), at=r"rollback\.inflight$")
    whats = [finding.problem for finding in look(fleet)]
    assert [what.partition(" ")[0] for what in whats] == ["rollback"]
    assert whats[0].endswith("was cut off")
    repair_all(fleet)


def test_a_plan_whose_executor_died(fleet: Fleet) -> None:
    instant = fleet.machine("planner").table.schedule_compaction()
    die_over(fleet, lambda victim: victim.table.run_compaction(instant))
    (found,) = look(fleet)
    assert (found.problem, found.instant) == (f"compaction {instant} is stuck", instant)
    assert found.cause.startswith("its executor died: test app on victim")
    assert found.command == f"hoodoo compact trips --run {instant}"
    (text,) = repair_all(fleet)
    assert text == f"compaction {instant}: 1 files written, 1 adopted from an earlier attempt"


def test_a_plan_that_nobody_runs(fleet: Fleet) -> None:
    instant = fleet.machine("planner").table.schedule_clustering()
    assert look(fleet) == []
    fleet.world.pass_time(DAY_S + 60)
    found = look(fleet)
    assert [each.problem for each in found] == [f"clustering {instant} is stuck"]
    assert found[0].cause == "nobody has run it for 1441 minutes"
    assert found[0].command == f"hoodoo cluster trips --run {instant}"
    repair_all(fleet)


def test_a_removable_plan_that_failed(fleet: Fleet) -> None:
    instant = fleet.machine("planner").table.schedule_clustering(removable=True)
    die_over(fleet, lambda victim: victim.table.run_clustering(instant))
    (found,) = look(fleet)
    assert found.problem == f"clustering {instant} is a plan that failed"
    assert found.repair is Repair.RECOVER
    repair_all(fleet)
    assert fleet.machine("reader").table.plans() == []


def test_a_cancellable_plan_that_is_overdue(fleet: Fleet) -> None:
    planner = fleet.machine("planner")
    instant = planner.table.schedule_clustering(cancellable=True)
    fleet.world.pass_time(DAY_S + 60)
    (found,) = look(fleet)
    assert found.problem == f"clustering {instant} is to be cancelled"
    assert found.command == f"hoodoo cancel trips {instant} --execute"
    assert repair_all(fleet) == [f"cancelled {instant}"]


def test_a_cancel_that_nobody_executed(fleet: Fleet) -> None:
    planner = fleet.machine("planner")
    instant = planner.table.schedule_clustering(cancellable=True)
    assert instant is not None
    planner.table.request_cancel(instant)
    (found,) = look(fleet)
    assert (found.repair, found.cause) == (Repair.CANCEL, "by hand")
    repair_all(fleet)


def test_a_cancel_request_of_a_plan_that_has_ended(fleet: Fleet) -> None:
    done = fleet.machine("writer").table.upsert(rows(a=3)).instant
    fleet.store.put(paths.cancel_path(done), b"{}")
    (found,) = look(fleet)
    assert (found.problem, found.cause) == (
        f"a cancel request of {done} is left",
        "that plan is completed",
    )
    assert repair_all(fleet) == [f"dropped the cancel request of {done}"]


def test_stray_files(fleet: Fleet) -> None:
    done = fleet.machine("writer").table.upsert(rows(a=3)).instant
    (path,) = (p for p in fleet.data_files() if done in p)
    stray = path.replace("_0-1-0", "_0-9-9") if "_0-1-0" in path else f"{path}x"
    fleet.store.put(stray, fleet.store.read(path))
    assert look(fleet) == []  # it may be of a task that is still at work
    fleet.world.pass_time(200)
    (found,) = [each for each in look(fleet) if each.repair is Repair.SWEEP]
    assert found.problem == f"1 stray data files: {stray}"
    assert found.command == "hoodoo doctor trips --fix"
    repair_all(fleet)
    assert stray not in fleet.data_files()
    assert path in fleet.data_files()
    assert fleet.machine("reader").rows() == {"a": 3, "b": 1}


def test_files_of_archived_commits_are_no_strays() -> None:
    fleet = Fleet("cow", **{"hoodie.archive.automatic": True})
    writer = fleet.machine("writer")
    for number in range(60):
        writer.table.upsert(rows(a=number))
        fleet.world.pass_time(30)
    assert len(writer.ref.load_timeline().commits) < 60
    fleet.world.pass_time(500)
    assert not [each for each in look(fleet) if each.repair is Repair.SWEEP]


def test_services_that_nobody_runs(fleet: Fleet) -> None:
    writer = fleet.machine("writer")
    for number in range(40):
        writer.table.upsert(rows(a=number))
    fleet.options["hoodie.clean.automatic"] = True
    found = look(fleet)
    assert [each.command for each in found] == ["hoodoo upkeep trips"] * 2
    assert found[0].problem.startswith("43 delta commits since the last compaction")
    assert found[1].problem.startswith("43 commits since the last clean")
    repair_all(fleet)


def test_a_lock_whose_holder_died(fleet: Fleet) -> None:
    victim = fleet.machine("victim")
    cut_power_at(victim, "create", r"requested$")
    with pytest.raises(PowerCut):
        victim.table.upsert(rows(a=3))
    fleet.die(victim)
    fleet.world.pass_time(600)
    found = look(fleet)
    assert (found[0].repair, found[0].command) == (Repair.BREAK_LOCK, "hoodoo lock break trips")
    assert "victim" in found[0].cause


def test_a_damaged_plan_hides_nothing_else(fleet: Fleet) -> None:
    instant = fleet.machine("planner").table.schedule_compaction()
    fleet.store.put(".hoodie/timeline/20200101000000000.clustering.requested", b"not a plan")
    fleet.world.pass_time(DAY_S + 60)
    found = {each.repair: each for each in look(fleet)}
    assert found[Repair.RUN_PLAN].instant == instant
    assert found[Repair.BY_HAND].problem == "clustering 20200101000000000 cannot be read"
    assert found[Repair.BY_HAND].command is None


def test_a_store_that_may_not_be_written_to(fleet: Fleet) -> None:
    doctor = fleet.machine("doctor")
    die_over(fleet, lambda victim: victim.table.upsert(rows(a=3)))

    def refuse(verb: str, path: str) -> None:
        if verb in ("create", "put", "replace", "delete"):
            raise StorageError(path, "read only")

    doctor.storage.before(refuse)
    assert diagnose(doctor.ref) == []  # nothing happened since, so nobody can tell
    fleet.machine("writer", **{"hoodie.clean.failed.writes.policy": "NEVER"}).table.upsert(
        rows("b", z=1)
    )
    assert [each.problem.endswith("is a dead write") for each in diagnose(doctor.ref)] == [True]
