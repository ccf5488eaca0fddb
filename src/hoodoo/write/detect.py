"""Looking for conflicts beside a write that runs, and stopping it when one is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hoodoo.concurrency.early import Detection, Detector, TaskCheck, make_task_check
from hoodoo.concurrency.group_blooms import write_group_bloom
from hoodoo.engine.stop import Stop
from hoodoo.errors import EarlyConflict
from hoodoo.model import paths
from hoodoo.table.ref import TableRef
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.write.begin import BegunWrite, conflict_strategy


@contextmanager
def detect_conflicts(ref: TableRef, begun: BegunWrite, stop: Stop) -> Iterator[TaskCheck | None]:
    """Look for conflicts while the block runs; gives what tasks have to look for themselves.

    The first look is part of the begin, as far as profiles tell; what markers tell beside them is
    looked at here, if there are older writes at all. Raises `EarlyConflict`.
    Order: bloom, if the strategy has them; first look; then one each period.
    """
    detection = Detection.of(ref)
    if detection is None:
        yield None
        return
    strategy, mine = conflict_strategy(ref), begun.assignment.describe_plan(begun.time)
    if detection.strategy.uses_blooms:
        write_group_bloom(ref.env, begun.time, mine.touches)
    detector = Detector(
        ref, mine, strategy, detection, planned_on=begun.assignment.snapshot.timeline
    )
    if begun.peers and not detection.delay_ms:
        detector.look()
    with watch(ref, detector, detection, stop):
        yield make_task_check(ref, mine, strategy, detection, begun.peers)
    stop.check()  # a conflict that was found when the last task had just ended


@contextmanager
def watch(ref: TableRef, detector: Detector, detection: Detection, stop: Stop) -> Iterator[None]:
    """Look each period while the block runs, and request its end when a conflict is found."""
    clock = ref.env.clock
    due = clock.monotonic() + detection.delay_ms / 1000

    def step() -> None:
        if clock.monotonic() < due:
            return
        try:
            detector.look()
        except EarlyConflict as conflict:
            stop.request(conflict)

    timer = clock.every(detection.period_ms, step)
    try:
        yield
    finally:
        timer.stop()


def delete_bloom(ref: TableRef, begun: BegunWrite) -> None:
    """Remove the filter of a write that has ended."""
    detection = Detection.of(ref)
    if detection is not None and detection.strategy.uses_blooms:
        delete_surely(ref.env, paths.group_bloom(begun.time))
