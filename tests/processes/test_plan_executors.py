"""The scenario tables of design 000 with real processes: A to C for persistent plans, A to E for
removable ones. At night the items are run by tasks of Spark sessions of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.processes import Child, Children, until
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.errors import PlanNotExecutable

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
SCRIPT = Path(__file__).with_name("executor.py")
WITHIN_S = 120
LONG = {
    "hoodie.client.heartbeat.interval_in_ms": 20_000,
    "hoodie.client.heartbeat.tolerable.misses": 5,
    "hoodie.table.services.enabled": False,
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.write.spark.driver.max.file.bytes": 0,
}
SHORT = {
    **LONG,
    "hoodie.client.heartbeat.interval_in_ms": 1_000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
}
SERVICES = ["compaction", "log_compaction", "clustering"]


def each(in_ci: str, services: list[str] = SERVICES) -> list[Any]:
    """Services as parameters: one by day, all of them at night."""
    night = pytest.mark.nightly
    return [name if name == in_ci else pytest.param(name, marks=night) for name in services]


ON = [False, pytest.param(True, marks=[pytest.mark.spark, pytest.mark.nightly])]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("on_spark", ON, ids=["local", "spark"])]


class Plan:
    """A table with a plan, and processes that execute it."""

    def __init__(
        self, place: Path, children: Children, service: str, *, on_spark: bool, **terms: bool
    ) -> None:
        self.place = place / "t"
        self.service = service
        self._children = children
        self._scratch = place if on_spark else None
        table = hoodoo.create_table(
            self.place, schema=SCHEMA, record_key="id", partition_by="part", table_type="mor",
            options=LONG,
        )  # fmt: skip
        for v in range(4):
            ids = list(range(40)) if v == 0 or service == "clustering" else list(range(30))
            parts = [f"p{n % 4}" for n in ids]
            rows = pa.table([ids, parts, [v] * len(ids)], schema=SCHEMA)
            write = table.bulk_insert if v == 0 else table.upsert
            write(rows)
        self.table = table
        self.before = self.rows()
        self.instant = getattr(table, f"schedule_{service}")(**terms)
        assert self.instant is not None

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.table.to_arrow(columns=SCHEMA.names))

    def start(self, options: dict[str, Any], *, pauses: bool = False) -> Child:
        number = len(list(self.place.parent.glob("scratch-*")))
        scratch = self.place.parent / f"scratch-{number}"
        scratch.mkdir()
        spec = {
            "uri": str(self.place),
            "options": options,
            "service": self.service,
            "instant": self.instant,
            "pauses": pauses,
            "scratch": str(scratch) if self._scratch else None,
        }
        return self._children.start(SCRIPT, spec, deadline_s=2 * WITHIN_S)

    def end(self, *executors: Child) -> list[dict[str, Any]]:
        """What came of each."""
        for child in executors:
            assert child.end(within_s=WITHIN_S) == 0, child.told()
        return [child.journal.entries()[-1] for child in executors]

    def check(self) -> None:
        """It is completed once, and nobody sees a difference."""
        found = [each for each in self.table.timeline() if each.requested_time == self.instant]
        assert [each.state for each in found] == ["completed"]
        assert self.rows() == self.before
        assert rows_of(self.table.to_arrow()) == wheel_rows(self.place)

    def wait_until_dead(self) -> None:
        """Until the heartbeat of the plan is older than its short expiry."""
        heartbeat = self.place / ".hoodie" / ".heartbeat" / self.instant
        probe = self.place.parent / "probe"

        def is_old() -> bool:
            probe.write_bytes(b"")
            return probe.stat().st_mtime - heartbeat.stat().st_mtime > 3.5

        until("the heartbeat ages", is_old, within_s=WITHIN_S)


def completions(outcomes: list[dict[str, Any]]) -> int:
    return sum(each["word"] == "done" and not each["was_done"] for each in outcomes)


@pytest.mark.parametrize("service", each("compaction"))
def test_a_one_of_several_executors_completes_a_new_plan(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark)
    outcomes = plan.end(*[plan.start(LONG) for _ in range(3)])
    assert completions(outcomes) == 1
    refused = {each["error"] for each in outcomes if each["word"] == "refused"}
    assert refused <= {"PlanInProgress"}
    plan.check()


@pytest.mark.parametrize("service", each("clustering"))
def test_b_an_executor_leaves_a_plan_that_another_one_executes(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark)
    first = plan.start(LONG, pauses=True)
    assert first.wait_until_idle(within_s=WITHIN_S)
    (second,) = plan.end(plan.start(LONG))
    assert second["error"] == "PlanInProgress"
    first.resume()
    (done,) = plan.end(first)
    assert (done["word"], done["was_done"]) == ("done", False)
    plan.check()


@pytest.mark.parametrize("service", each("log_compaction"))
def test_c_a_plan_of_a_dead_executor_is_resumed(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark)
    first = plan.start(SHORT, pauses=True)
    assert first.wait_until_idle(within_s=WITHIN_S)
    first.kill()
    plan.wait_until_dead()
    outcomes = plan.end(plan.start(LONG), plan.start(LONG))
    assert completions(outcomes) == 1
    (done,) = (each for each in outcomes if each["word"] == "done" and not each["was_done"])
    assert done["adopted"] > 0
    plan.check()


@pytest.mark.parametrize("service", ["compaction"])
def test_c_an_executor_that_wakes_up_too_late_completes_nothing(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark)
    first = plan.start(SHORT, pauses=True)
    assert first.wait_until_idle(within_s=WITHIN_S)
    plan.wait_until_dead()
    (done,) = plan.end(plan.start(LONG))
    assert (done["word"], done["was_done"]) == ("done", False)
    first.resume()
    (late,) = plan.end(first)
    assert late["word"] == "refused"
    plan.check()


@pytest.mark.parametrize("service", each("clustering", SERVICES[1:]))
def test_removable_a_b_one_executor_completes_and_others_leave_it(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark, removable=True)
    first = plan.start(LONG, pauses=True)
    assert first.wait_until_idle(within_s=WITHIN_S)
    (second,) = plan.end(plan.start(LONG))
    assert second["error"] == "PlanInProgress"
    assert not hoodoo.open_table(plan.place, LONG).recover().rolled_back  # D: X is at work
    first.resume()
    (done,) = plan.end(first)
    assert (done["word"], done["was_done"]) == ("done", False)
    plan.check()


@pytest.mark.parametrize("service", each("log_compaction", SERVICES[1:]))
def test_removable_c_d_e_a_failed_plan_is_never_executed_again_and_removed(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark, removable=True)
    first = plan.start(SHORT, pauses=True)
    assert first.wait_until_idle(within_s=WITHIN_S)
    first.kill()
    plan.wait_until_dead()
    outcomes = plan.end(plan.start(LONG), plan.start(LONG))
    assert {each.get("error") for each in outcomes} == {"PlanNotExecutable"}
    (removed,) = hoodoo.open_table(plan.place, LONG).recover().rolled_back
    assert removed.instant == plan.instant
    with pytest.raises(PlanNotExecutable, match="no plan"):
        getattr(plan.table, f"run_{service}")(plan.instant)
    assert plan.rows() == plan.before
    assert rows_of(plan.table.to_arrow()) == wheel_rows(plan.place)


@pytest.mark.parametrize("service", each("clustering", SERVICES[1:]))
def test_removable_e_a_new_plan_is_left_until_its_delay_is_over(
    tmp_path: Path, children: Children, service: str, on_spark: bool
) -> None:
    plan = Plan(tmp_path, children, service, on_spark=on_spark, removable=True)
    assert not hoodoo.open_table(plan.place, LONG).recover().rolled_back
    at_once = {**LONG, "hoodie.table.service.rollback.delay.minutes": 0}
    (removed,) = hoodoo.open_table(plan.place, at_once).recover().rolled_back
    assert removed.instant == plan.instant
    (refused,) = plan.end(plan.start(LONG))
    assert refused["error"] == "PlanNotExecutable"
    assert plan.rows() == plan.before
