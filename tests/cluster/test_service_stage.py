"""Executors die, attempts run side by side, stages run again while a service executes a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drivers import Driver
from support.faults import COMPLETION, DATA, Fault
from support.processes import until, wait_until_gone
from support.services_under_faults import ServiceUnderFaults
from support.spark_events import task_ends

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "300ms",
    "spark.python.task.killTimeout": "300s",
}
WITHIN_S = 120.0
SERVICES = ["compaction", "clustering"]


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("moment", ["publish", "published"])
def test_executor_killed_in_a_service(
    spark_driver: Driver, events: Path, tmp_path: Path, service: str, moment: str
) -> None:
    table = ServiceUnderFaults(tmp_path / "table", service)
    table.begin_service(spark_driver, Fault("death", "kill_executor", moment, table.files))
    spark_driver.answer(within_s=WITHIN_S)

    assert table.is_completed()
    table.check_rows()
    victim = table.faults.happened("death")
    assert victim is not None
    assert table.others_that_published(victim), "another attempt did its work"
    assert task_ends(events, victim["stage"])["ExecutorLostFailure"]
    table.check_swept()


@pytest.mark.parametrize("service", SERVICES)
def test_both_attempts_of_an_item_finish(
    spark_driver: Driver, tmp_path: Path, service: str
) -> None:
    table = ServiceUnderFaults(tmp_path / "table", service)
    table.begin_service(
        spark_driver,
        Fault("slow", "wait", "publish", table.files),
        Fault("twin", "wait", "published", COMPLETION, twin_of="slow"),
    )
    for name in ("slow", "twin"):
        until(name, lambda name=name: table.faults.happened(name), within_s=WITHIN_S)
    slow = table.faults.happened("slow")
    assert slow is not None
    table.faults.release("slow")
    until(
        "the slow attempt withdraws its files",
        lambda: slow["path"] in {e["path"] for e in table.faults.events("deleted", DATA)},
        within_s=WITHIN_S,
    )
    table.faults.release("twin")
    spark_driver.answer(within_s=WITHIN_S)

    assert table.is_completed()
    table.check_rows()
    table.check_swept()


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("moment", ["write", "publish"])
def test_a_stray_attempt_leaves_nothing_after_the_commit(
    spark_driver: Driver, tmp_path: Path, service: str, moment: str
) -> None:
    table = ServiceUnderFaults(tmp_path / "table", service)
    table.begin_service(spark_driver, Fault("stray", "wait", moment, table.files))
    spark_driver.answer(within_s=WITHIN_S)  # its twin did the work
    stray = table.faults.happened("stray")
    assert stray is not None
    assert table.is_completed()
    table.check_rows()
    table.faults.release("stray")
    wait_until_gone(stray["pid"])
    published = [e for e in table.faults.events("published", DATA) if e["task"] == stray["task"]]
    deleted = {event["path"] for event in table.faults.events("deleted", DATA)}
    assert bool(published) == (moment == "publish")
    assert {event["path"] for event in published} <= deleted
    table.check_rows()
    table.check_swept()


@pytest.mark.parametrize("service", SERVICES)
def test_a_stage_of_a_service_that_runs_again_is_refused(
    spark_driver: Driver, tmp_path: Path, service: str
) -> None:
    table = ServiceUnderFaults(tmp_path / "table", service)
    table.begin_service(spark_driver, repeats=True)
    files = spark_driver.answer(within_s=WITHIN_S)
    assert table.is_completed()
    table.check_rows()
    published = {event["path"] for event in table.faults.events("published", table.files)}
    withdrawn = {event["path"] for event in table.faults.events("deleted", DATA)}  # of twins
    assert len(published - withdrawn) == files
    table.check_swept()
