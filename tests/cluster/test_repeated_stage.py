"""The write stage is forced to run again when its write was finalized, and when committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.drivers import Driver
from support.scenes import Scene

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SETTINGS = {"spark.sql.adaptive.enabled": "false"}
WITHIN_S = 120.0
WRITES = [("cow", "upsert"), ("mor", "upsert"), ("cow", "bulk_insert")]


@pytest.mark.parametrize(("kind", "operation"), WRITES)
@pytest.mark.parametrize("fails", [True, False])
def test_stage_runs_again(
    spark_driver: Driver, tmp_path: Path, kind: str, operation: str, fails: bool
) -> None:
    scene = Scene(tmp_path / "table", kind, operation)
    policy = {"hoodie.write.fail.on.finalize.marker": fails}
    scene.begin(spark_driver, request="write_and_repeat", **policy)
    outcomes = spark_driver.answer(within_s=WITHIN_S)

    scene.check_rows()
    first = sorted(outcomes["first"])
    assert len(first) > 1
    for moment in ("finalized", "committed"):
        again = sorted(outcomes[moment])
        assert again == ([["CommitFailed"]] * len(first) if fails else first)
    published = [event["path"] for event in scene.faults.events("published", r"^part=")]
    assert sorted(published) == sorted(path for files in first for path in files)
    scene.check_swept()
