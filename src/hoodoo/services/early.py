"""Early conflict detection of table services: a plan that has lost is not executed to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hoodoo.concurrency.conflict import Kind, Mine, Touch
from hoodoo.concurrency.early import Detection, Detector
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.engine.stop import Stop
from hoodoo.services.pending import OwnedPlan, plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.write.begin import conflict_strategy
from hoodoo.write.detect import watch


def strategy_of(ref: TableRef, owned: OwnedPlan) -> ConflictStrategy:
    """By which rules a plan is completed."""
    return choose_strategy(conflict_strategy(ref), is_cancellable=owned.terms.is_cancellable)


def choose_strategy(of_table: ConflictStrategy, *, is_cancellable: bool) -> ConflictStrategy:
    """The rules for a plan: a cancellable one gives way to writes in progress. Pure."""
    return ConflictStrategy.PREFER_WRITER if is_cancellable else of_table


@contextmanager
def detect_conflicts(ref: TableRef, owned: OwnedPlan, kind: Kind, stop: Stop) -> Iterator[None]:
    """Ask the question of the gate, each period, while a plan is executed in the block."""
    detection = Detection.of(ref)
    if detection is None:
        yield
        return
    how = Touch.REPLACE if kind is Kind.CLUSTERING else Touch.REWRITE
    mine = Mine(owned.time, kind, dict.fromkeys(plan_groups(owned.plan), how))
    planned_on = ref.load_timeline().ended_until(owned.time)
    detector = Detector(ref, mine, strategy_of(ref, owned), detection, planned_on=planned_on)
    with watch(ref, detector, detection, stop):
        yield
