"""Executors die, shuffle files vanish, and the whole write stage is run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drivers import Driver
from support.faults import Fault
from support.processes import until
from support.spark_events import task_ends
from support.writes_under_faults import WriteUnderFaults

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SETTINGS: dict[str, str] = {}
TASK_EACH: dict[str, object] = {"hoodie.copyonwrite.record.size.estimate": 1_000_000}
"""Rows count as so large that each file group has a task, of which some have not begun yet."""
SORTED = {
    "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
    "hoodie.bulkinsert.shuffle.parallelism": 6,
}
WITHIN_S = 120.0
WRITES = [("cow", "upsert"), ("mor", "upsert"), ("cow", "bulk_insert"), ("cow", "small upsert")]


@pytest.mark.parametrize(("kind", "operation"), WRITES)
@pytest.mark.parametrize("moment", ["half written", "published"])
def test_executor_killed_in_a_write(
    spark_driver: Driver, events: Path, tmp_path: Path, kind: str, operation: str, moment: str
) -> None:
    write = WriteUnderFaults(tmp_path / "table", kind, operation)
    # A log file is written in one go.
    early = "publish" if kind == "mor" else "write"
    when = "published" if moment == "published" else early
    write.begin(spark_driver, Fault("death", "kill_executor", when, write.files))
    spark_driver.answer(within_s=WITHIN_S)

    write.check_rows()
    victim = write.faults.happened("death")
    assert victim is not None
    assert write.others_that_published(victim), "another attempt did its work"
    assert task_ends(events, victim["stage"])["ExecutorLostFailure"]
    assert not Path(f"/proc/{victim['pid']}").exists()
    if moment == "half written":
        assert write.drafts()
    write.check_swept()


@pytest.mark.parametrize(
    ("kind", "operation", "options"),
    [
        ("cow", "upsert", TASK_EACH),
        ("mor", "upsert", TASK_EACH),
        ("cow", "bulk_insert", SORTED),
    ],
)
def test_shuffle_files_lost(
    spark_driver: Driver,
    events: Path,
    tmp_path: Path,
    kind: str,
    operation: str,
    options: dict[str, object],
) -> None:
    write = WriteUnderFaults(tmp_path / "table", kind, operation)
    write.begin(spark_driver, Fault("loss", "lose_shuffle", "publish", write.files), **options)
    spark_driver.answer(within_s=WITHIN_S)

    write.check_rows()
    loss = write.faults.happened("loss")
    assert loss is not None
    until(
        "Spark notes the failed fetch",
        lambda: task_ends(events, loss["stage"])["FetchFailed"],
        within_s=60,
    )
    write.check_swept()


@pytest.mark.parametrize(("kind", "operation"), WRITES[:-1])
@pytest.mark.parametrize("fails", [True, False])
def test_stage_runs_again(
    spark_driver: Driver, tmp_path: Path, kind: str, operation: str, fails: bool
) -> None:
    write = WriteUnderFaults(tmp_path / "table", kind, operation)
    policy = {"hoodie.write.fail.on.finalize.marker": fails}
    write.begin(spark_driver, request="write_and_repeat", **policy)
    outcomes = spark_driver.answer(within_s=WITHIN_S)

    write.check_rows()
    first = sorted(outcomes["first"])
    assert len(first) > 1
    for moment in ("finalized", "committed"):
        again = sorted(outcomes[moment])
        assert again == ([["CommitFailed"]] * len(first) if fails else first)
    published = [event["path"] for event in write.faults.events("published", r"^part=")]
    assert sorted(published) == sorted(path for files in first for path in files)
    write.check_swept()


def test_executors_announce_to_the_server_of_the_driver(
    spark_driver: Driver, tmp_path: Path
) -> None:
    """Files of its numbers hold all markers: no executor had to write a batch of its own."""
    write = WriteUnderFaults(tmp_path / "table", "cow", "upsert")
    batched = {"hoodie.write.markers.type": "timeline_server_based"}
    write.begin(spark_driver, Fault("held", "wait", "publish", write.files), **batched)
    until("a task waits", lambda: write.faults.happened("held"), within_s=WITHIN_S)
    (directory,) = (write.place / ".hoodie" / ".temp").iterdir()
    numbers = {path.name for path in directory.iterdir() if path.name != "MARKERS.type"}
    write.faults.release("held")
    spark_driver.answer(within_s=WITHIN_S)

    write.check_rows()
    assert numbers
    assert numbers <= {f"MARKERS{number}" for number in range(20)}
    write.check_swept()
