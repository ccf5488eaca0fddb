"""Two attempts of a task run side by side; one goes on when nobody waits for it any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.drivers import Driver
from support.faults import COMPLETION, DATA, Fault
from support.processes import until, wait_until_gone
from support.writes_under_faults import WriteUnderFaults

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "300ms",
    # As if no order to kill ever reached the losing attempt.
    "spark.python.task.killTimeout": "300s",
}
WITHIN_S = 120.0
WRITES = [("cow", "upsert"), ("mor", "upsert"), ("cow", "bulk_insert"), ("cow", "small upsert")]


def wait_for_fault(write: WriteUnderFaults, name: str) -> dict[str, Any]:
    """The attempt that a fault happens to, once it does."""
    until(name, lambda: write.faults.happened(name), within_s=WITHIN_S)
    found = write.faults.happened(name)
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "operation"), WRITES)
def test_both_attempts_finish(
    spark_driver: Driver, tmp_path: Path, kind: str, operation: str
) -> None:
    """The one that says first that it is done counts, whoever of them Spark listens to."""
    write = WriteUnderFaults(tmp_path / "table", kind, operation)
    write.begin(
        spark_driver,
        Fault("slow", "wait", "publish", write.files),
        Fault("twin", "wait", "published", COMPLETION, twin_of="slow"),
    )
    slow, twin = wait_for_fault(write, "slow"), wait_for_fault(write, "twin")
    assert (slow["stage"], slow["partition"]) == (twin["stage"], twin["partition"])
    write.faults.release("slow")
    until(
        "the slow attempt withdraws its files",
        lambda: slow["path"] in {e["path"] for e in write.faults.events("deleted", DATA)},
        within_s=WITHIN_S,
    )
    write.faults.release("twin")
    spark_driver.answer(within_s=WITHIN_S)

    write.check_rows()
    publishers = {event["task"] for event in write.faults.events("published", DATA)}
    assert {slow["task"], twin["task"]} <= publishers
    write.check_swept()


@pytest.mark.parametrize(
    ("kind", "operation", "moment"),
    [
        *((*write, "publish") for write in WRITES),
        ("cow", "upsert", "write"),  # a log file is written in one go
        ("cow", "bulk_insert", "write"),
    ],
)
def test_stray_goes_on_after_the_commit(
    spark_driver: Driver, tmp_path: Path, kind: str, operation: str, moment: str
) -> None:
    write = WriteUnderFaults(tmp_path / "table", kind, operation)
    write.begin(spark_driver, Fault("stray", "wait", moment, write.files))
    spark_driver.answer(within_s=WITHIN_S)
    write.check_rows()
    stray = wait_for_fault(write, "stray")
    assert not write.faults.events("resumed"), "it still waits when the write is committed"
    assert write.others_that_published(stray), "another attempt did its work"

    write.faults.release("stray")
    wait_until_gone(stray["pid"])
    published = [e for e in write.faults.events("published", DATA) if e["task"] == stray["task"]]
    deleted = [e for e in write.faults.events("deleted", DATA) if e["task"] == stray["task"]]
    assert bool(published) == (moment == "publish")
    assert {e["path"] for e in published} <= {e["path"] for e in deleted}
    write.check_rows()
    write.check_swept()


@pytest.mark.parametrize(
    ("kind", "operation", "partition_by"),
    [("cow", "upsert", "part"), ("mor", "upsert", None), ("cow", "bulk_insert", None)],
)
def test_stray_dies_over_a_published_file(
    spark_driver: Driver, tmp_path: Path, kind: str, operation: str, partition_by: str | None
) -> None:
    write = WriteUnderFaults(tmp_path / "table", kind, operation, partition_by=partition_by)
    write.begin(
        spark_driver,
        Fault("stray", "wait", "publish", write.files),
        Fault("death", "kill_worker", "published", write.files, same_as="stray"),
    )
    spark_driver.answer(within_s=WITHIN_S)
    stray = wait_for_fault(write, "stray")
    write.faults.release("stray")
    assert wait_for_fault(write, "death")["task"] == stray["task"]
    wait_until_gone(stray["pid"])
    assert (write.place / stray["path"]).exists()
    write.check_swept()
    assert not (write.place / stray["path"]).exists()
