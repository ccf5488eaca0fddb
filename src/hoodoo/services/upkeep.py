"""Upkeep: the table services that are due, run after a commit or by a process of its own.

Any number of processes may do this on one table at the same time. Whoever finds that another is
at work on something leaves it, and goes on. What fails is told, and the rest is done all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from hoodoo.config.retention import ARCHIVE_AUTOMATIC, CLEAN_AUTOMATIC
from hoodoo.config.services import SERVICES_ENABLED
from hoodoo.deprecated import find_by_old_name
from hoodoo.errors import (
    AlreadyCommitted,
    HeartbeatLost,
    HoodooError,
    PlanCancelled,
    PlanInProgress,
    PlanNotExecutable,
    WriteConflict,
    WriterAlive,
)
from hoodoo.metadata_table.table import has_metadata_table
from hoodoo.model.commit import CommitNotes, OperationType
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.progress import OnProgress, count_items
from hoodoo.recovery.recover import RecoverResult, recover
from hoodoo.recovery.rollback import RollbackResult
from hoodoo.runtime.engine import Engine
from hoodoo.services.archive.archive import archive, is_archive_due, is_inline_archive_due
from hoodoo.services.clean.clean import clean, is_clean_due
from hoodoo.services.compaction.metadata_table import compact_metadata_table, is_compaction_due
from hoodoo.services.indexing.build import run_index
from hoodoo.services.indexing.create import build_requested_indexes
from hoodoo.services.plans.cancel import cancel_overdue, cancel_requested
from hoodoo.services.plans.execute import ServiceResult
from hoodoo.services.plans.pending import find_idle_plans, find_plans
from hoodoo.services.registry import PLANNED_SERVICES, PlannedService, ServiceSwitches
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.retry import run_with_retries

log = logging.getLogger("hoodoo.services")

Result = TypeVar("Result", bound=CommitResult | None)

_OTHERS_WERE_FASTER = (
    *(PlanInProgress, PlanNotExecutable, AlreadyCommitted, PlanCancelled),
    *(HeartbeatLost, WriteConflict, WriterAlive),
)
ServiceProgress = Callable[[int, int], None]
"""Told how many items of a plan are done, and of how many."""
ProgressOf = Callable[[str], ServiceProgress | None]
"""The same for each service that runs, by its name."""


class ServiceOutcome(Enum):
    """What came of a service."""

    DONE = "done"
    PLANNED = "planned"
    LEFT = "left"
    """Someone else is at work on it, or was faster."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """What came of one service."""

    service: str
    outcome: ServiceOutcome
    text: str
    instant: InstantTime | None = None
    seconds: float = 0.0


@dataclass
class _ServiceRun:
    """One visit to a table: the timeline as it was last seen, and what it takes to do something."""

    ref: TableRef
    engine: Engine
    timeline: Timeline
    progress_of: ProgressOf

    def look_again(self) -> None:
        self.timeline = self.ref.load_timeline()


Step = Callable[[_ServiceRun], Iterator[ServiceReport]]


def write_and_run_services(
    ref: TableRef,
    engine: Engine,
    operation: OperationType,
    write: Callable[[TableRef], Result],
    notes: CommitNotes,
    on_progress: OnProgress | None = None,
) -> Result | CommitResult:
    """Build the indexes that options ask for, write with retries, then run services that are due.

    All of it on one engine. `write` returns None if there was nothing to change: then no service
    runs.
    """
    build_requested_indexes(ref, engine)
    result = run_with_retries(ref.with_notes(notes), operation, write)
    if result is None:
        return result
    return run_services_after_write(ref, engine, result, on_progress)


def run_services_after_write(
    ref: TableRef, engine: Engine, write_result: CommitResult, on_progress: OnProgress | None = None
) -> CommitResult:
    """Run what is due after this commit; its timings then tell how long that took."""
    if write_result.is_skipped:
        return write_result
    start_time = ref.env.clock.monotonic()
    if not run_inline_services(ref, engine, lambda service: count_items(service, on_progress)):
        return write_result
    seconds = ref.env.clock.monotonic() - start_time
    return replace(write_result, timings={**write_result.timings, "upkeep": seconds})


def run_inline_services(
    ref: TableRef, engine: Engine, progress_of: ProgressOf = lambda service: None
) -> list[ServiceReport]:
    """Run what is due after a commit, by the switches for writers. Raises no `Exception`.

    The write is committed, whatever comes of this. Where nothing is due it costs one listing, and
    nothing where all is switched off.
    Order: requested cancels, compaction, log compaction, clustering, clean, compaction of the
    metadata table, archive.
    Crash: that of the service; the next writer, or `run_due_services`, goes on.
    """
    steps = _choose_steps(ref)
    if not steps:
        return []
    try:
        visit = _ServiceRun(ref, engine, ref.load_timeline(), progress_of)
    except HoodooError as error:
        log.warning("upkeep_failed error=%s", error)
        return []
    return list(_take_steps(visit, steps))


def _choose_steps(ref: TableRef) -> dict[str, Step]:
    """What a writer of this table does after a commit; nothing, if all of it is switched off."""
    config = ref.config
    if not config.get(SERVICES_ENABLED):
        return {}
    steps: dict[str, Step] = {}
    for service in PLANNED_SERVICES:
        switches = service.inline_switches(config)
        if switches.plans and service.is_applicable(ref):
            steps[service.action.value] = _plan_and_run(service, switches)
    if config.get(CLEAN_AUTOMATIC):
        steps["clean"] = _clean
    if has_metadata_table(ref.properties):
        steps["metadata"] = _compact_metadata
    if config.get(ARCHIVE_AUTOMATIC):
        steps["archive"] = _archive_batch
    return {"cancel": _cancel_requested, **steps} if steps else {}


def run_due_services(
    ref: TableRef, engine: Engine, progress_of: ProgressOf = lambda service: None
) -> Iterator[ServiceReport]:
    """Run everything that is due, and plans that wait for an executor; tells of each as it ends.

    What only a writer is told not to do is done here. A failure is told, not raised.
    Order: recover; overdue cancels; pending plans and due services, as `run_inline_services`;
    builds of indexes ahead of the compaction of the metadata table.
    Crash: as `run_inline_services`.
    """
    visit = _ServiceRun(ref, engine, ref.load_timeline(), progress_of)
    planned_steps = {
        service.action.value: _plan_and_run(service, service.standalone_switches(ref.config))
        for service in PLANNED_SERVICES
        if service.is_applicable(ref)
    }
    steps = {"recover": _recover, "cancel": _cancel, **planned_steps}
    if ref.config.get(CLEAN_AUTOMATIC):
        steps["clean"] = _clean
    steps["index"] = _run_index
    if has_metadata_table(ref.properties):
        steps["metadata"] = _compact_metadata
    if ref.config.get(ARCHIVE_AUTOMATIC):
        steps["archive"] = _archive
    yield from _take_steps(visit, steps)


def _take_steps(visit: _ServiceRun, steps: dict[str, Step]) -> Iterator[ServiceReport]:
    """Each step gets its chance, whatever became of those before it."""
    clock = visit.ref.env.clock
    is_changed = False
    for service, step in steps.items():
        start_time = clock.monotonic()
        try:
            if is_changed:
                visit.look_again()
            is_changed = False
            for report in step(visit):
                is_changed = True
                seconds = clock.monotonic() - start_time
                start_time += seconds
                yield _tell(replace(report, seconds=seconds))
        except Exception as error:
            is_changed = True
            yield _tell(_describe_failure(service, error, clock.monotonic() - start_time))


def _describe_failure(service: str, error: Exception, seconds: float) -> ServiceReport:
    is_left = isinstance(error, _OTHERS_WERE_FASTER)
    if not isinstance(error, HoodooError):
        log.error("service_failed service=%s", service, exc_info=error)
    text = str(error) if isinstance(error, HoodooError) else f"{type(error).__name__}: {error}"
    outcome = ServiceOutcome.LEFT if is_left else ServiceOutcome.FAILED
    return ServiceReport(service, outcome, text, seconds=seconds)


def _tell(report: ServiceReport) -> ServiceReport:
    level = logging.WARNING if report.outcome is ServiceOutcome.FAILED else logging.INFO
    log.log(
        level, "upkeep service=%s outcome=%s %s", report.service, report.outcome.value, report.text
    )
    return report


# -- steps --------------------------------------------------------------------------------------


def _plan_and_run(service: PlannedService, switches: ServiceSwitches) -> Step:
    """Plans that wait are run first; a new one is made only where none is pending."""

    def step(visit: _ServiceRun) -> Iterator[ServiceReport]:
        ref = visit.ref
        pending = find_plans(visit.timeline, service.action)
        if switches.runs:
            for plan in find_idle_plans(ref, pending):
                yield _run(visit, service, plan)
        if pending or not switches.plans or not service.is_due(ref, visit.timeline):
            return
        plan_instant = service.schedule(ref, service.terms(ref.config))
        if plan_instant is None:
            return
        if switches.runs:
            yield _run(visit, service, plan_instant)
        else:
            name, time = service.action.value, plan_instant.requested_time
            yield ServiceReport(name, ServiceOutcome.PLANNED, f"planned {name} {time}", time)

    return step


def _run(visit: _ServiceRun, service: PlannedService, plan: Instant) -> ServiceReport:
    name, time = service.action.value, plan.requested_time
    try:
        result = service.run(visit.ref, time, visit.engine, visit.progress_of(name))
    except _OTHERS_WERE_FASTER as error:
        return ServiceReport(name, ServiceOutcome.LEFT, str(error), time)
    assert result is not None
    outcome = ServiceOutcome.LEFT if result.completed_by_other else ServiceOutcome.DONE
    return ServiceReport(name, outcome, describe_result(result), time)


def describe_result(result: ServiceResult) -> str:
    """What a plan that is completed did, in a line."""
    if result.completed_by_other:
        return f"{result.action} {result.instant} was completed by someone else"
    adoption_note = (
        f", {result.reused_items} adopted from an earlier attempt" if result.reused_items else ""
    )
    return f"{result.action} {result.instant}: {result.stats.files} files written{adoption_note}"


def _run_index(visit: _ServiceRun) -> Iterator[ServiceReport]:
    """Builds that someone planned, and nobody is at work on."""
    for plan in find_idle_plans(visit.ref, find_plans(visit.timeline, Action.INDEXING)):
        time, bars = plan.requested_time, visit.progress_of
        try:
            result = run_index(visit.ref, time, visit.engine, bars)
        except _OTHERS_WERE_FASTER as error:
            yield ServiceReport("index", ServiceOutcome.LEFT, str(error), time)
            continue
        assert result is not None
        outcome = ServiceOutcome.LEFT if result.completed_by_other else ServiceOutcome.DONE
        yield ServiceReport(
            "index", outcome, f"index {time}: built {', '.join(result.built)}", time
        )


def _compact_metadata(visit: _ServiceRun) -> Iterator[ServiceReport]:
    if not is_compaction_due(visit.ref):
        return
    time = compact_metadata_table(visit.ref)
    if time is not None:
        yield ServiceReport(
            "metadata", ServiceOutcome.DONE, f"compacted the metadata table at {time}", time
        )


def _clean(visit: _ServiceRun) -> Iterator[ServiceReport]:
    ref = visit.ref
    if is_clean_due(ref, visit.timeline):
        for result in clean(ref, visit.engine):
            text = f"clean {result.instant}: {len(result.files)} files deleted"
            yield ServiceReport("clean", ServiceOutcome.DONE, text, result.instant)


def _archive(visit: _ServiceRun) -> Iterator[ServiceReport]:
    ref = visit.ref
    if is_archive_due(ref, visit.timeline):
        result = archive(ref, visit.engine)
        if result.instants or result.finished_earlier:
            count = len(result.instants) + len(result.finished_earlier)
            yield ServiceReport("archive", ServiceOutcome.DONE, f"archive: {count} instants")


def _archive_batch(visit: _ServiceRun) -> Iterator[ServiceReport]:
    if is_inline_archive_due(visit.ref, visit.timeline):
        yield from _archive(visit)


def _recover(visit: _ServiceRun) -> Iterator[ServiceReport]:
    result = recover(visit.ref)
    if result.rolled_back or result.swept.data_files or result.swept.leftovers:
        yield ServiceReport("recover", ServiceOutcome.DONE, describe_recovery(result))


def describe_recovery(result: RecoverResult) -> str:
    """What a recover did, in a line."""
    return (
        f"recover: {len(result.rolled_back)} rolled back, "
        f"{len(result.swept.data_files)} data files "
        f"and {len(result.swept.leftovers)} leftovers swept"
    )


def _cancel(visit: _ServiceRun) -> Iterator[ServiceReport]:
    yield from _tell_cancels(cancel_overdue(visit.ref, visit.timeline))


def _cancel_requested(visit: _ServiceRun) -> Iterator[ServiceReport]:
    yield from _tell_cancels(cancel_requested(visit.ref, visit.timeline))


def _tell_cancels(results: Iterable[RollbackResult]) -> Iterator[ServiceReport]:
    for result in results:
        text = f"cancelled {result.action} {result.instant}: {result.reason}"
        yield ServiceReport("cancel", ServiceOutcome.DONE, text, result.instant)


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
