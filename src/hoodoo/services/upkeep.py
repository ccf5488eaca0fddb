"""Upkeep: the table services that are due, run after a commit or by a process of its own.

Any number of processes may do this on one table at the same time. Whoever finds that another is
at work on something leaves it, and goes on. What fails is told, and the rest is done all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from hoodoo.config.services import SERVICES_ENABLED
from hoodoo.config.upkeep import ARCHIVE_AUTOMATIC, CLEAN_AUTOMATIC
from hoodoo.engine.engine import Engine
from hoodoo.errors import (
    AlreadyCommitted,
    Cancelled,
    HeartbeatLost,
    HoodooError,
    PlanInProgress,
    PlanNotExecutable,
    WriteConflict,
    WriterAlive,
)
from hoodoo.metadata.metadata_table import has_metadata_table
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.progress import OnProgress, count_items
from hoodoo.recovery.cancel import cancel_overdue, cancel_requested
from hoodoo.recovery.recover import Recovered, recover
from hoodoo.recovery.rollback import RolledBack
from hoodoo.services.archive import archive, is_archive_due, is_batch_due
from hoodoo.services.clean import clean, is_clean_due
from hoodoo.services.indexing import run_index
from hoodoo.services.metadata_table import compact_metadata_table, is_compaction_due
from hoodoo.services.pending import find_idle_plans, find_plans
from hoodoo.services.planned import PLANNED_SERVICES, PlannedService, Switches
from hoodoo.services.rewrite import ServiceResult
from hoodoo.table.ref import TableRef
from hoodoo.timeline.timeline import Timeline
from hoodoo.write.commit import CommitResult

log = logging.getLogger("hoodoo.services")

_OTHERS_WERE_FASTER = (
    *(PlanInProgress, PlanNotExecutable, AlreadyCommitted, Cancelled),
    *(HeartbeatLost, WriteConflict, WriterAlive),
)
Progress = Callable[[int, int], None]
"""Told how many items of a plan are done, and of how many."""
ProgressOf = Callable[[str], Progress | None]
"""The same for each service that runs, by its name."""


class Outcome(Enum):
    """What came of a service."""

    DONE = "done"
    PLANNED = "planned"
    LEFT = "left"
    """Someone else is at work on it, or was faster."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What came of one service."""

    service: str
    outcome: Outcome
    text: str
    instant: InstantTime | None = None
    seconds: float = 0.0


@dataclass
class _Visit:
    """One visit to a table: the timeline as it was last seen, and what it takes to do something."""

    ref: TableRef
    engine: Engine
    timeline: Timeline
    progress_of: ProgressOf

    def look_again(self) -> None:
        self.timeline = self.ref.load_timeline()


Step = Callable[[_Visit], Iterator[Upkeep]]


def keep_up(
    ref: TableRef, engine: Engine, done: CommitResult, on_progress: OnProgress | None = None
) -> CommitResult:
    """Run what is due after this commit; its timings then tell how long that took."""
    if done.is_skipped:
        return done
    started = ref.env.clock.monotonic()
    if not upkeep_after(ref, engine, lambda service: count_items(service, on_progress)):
        return done
    seconds = ref.env.clock.monotonic() - started
    return replace(done, timings={**done.timings, "upkeep": seconds})


def upkeep_after(
    ref: TableRef, engine: Engine, progress_of: ProgressOf = lambda service: None
) -> list[Upkeep]:
    """Run what is due after a commit, by the switches for writers. Raises no `Exception`.

    The write is committed, whatever comes of this. Where nothing is due it costs one listing, and
    nothing where all is switched off.
    Order: requested cancels, compaction, log compaction, clustering, clean, compaction of the
    metadata table, archive.
    Crash: that of the service; the next writer, or `run_due`, goes on.
    """
    steps = _choose_steps(ref)
    if not steps:
        return []
    try:
        visit = _Visit(ref, engine, ref.load_timeline(), progress_of)
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
        switches = service.after_commit(config)
        if switches.plans and service.suits(ref):
            steps[service.action.value] = _plan_and_run(service, switches)
    if config.get(CLEAN_AUTOMATIC):
        steps["clean"] = _clean
    if has_metadata_table(ref.properties):
        steps["metadata"] = _compact_metadata
    if config.get(ARCHIVE_AUTOMATIC):
        steps["archive"] = _archive_batch
    return {"cancel": _cancel_requested, **steps} if steps else {}


def run_due(
    ref: TableRef, engine: Engine, progress_of: ProgressOf = lambda service: None
) -> Iterator[Upkeep]:
    """Run everything that is due, and plans that wait for an executor; tells of each as it ends.

    What only a writer is told not to do is done here. A failure is told, not raised.
    Order: recover; overdue cancels; pending plans and due services, as `upkeep_after`; builds of
    indexes ahead of the compaction of the metadata table.
    Crash: as `upkeep_after`.
    """
    visit = _Visit(ref, engine, ref.load_timeline(), progress_of)
    planned = {
        service.action.value: _plan_and_run(service, service.apart(ref.config))
        for service in PLANNED_SERVICES
        if service.suits(ref)
    }
    steps = {"recover": _recover, "cancel": _cancel, **planned}
    if ref.config.get(CLEAN_AUTOMATIC):
        steps["clean"] = _clean
    steps["index"] = _run_index
    if has_metadata_table(ref.properties):
        steps["metadata"] = _compact_metadata
    if ref.config.get(ARCHIVE_AUTOMATIC):
        steps["archive"] = _archive
    yield from _take_steps(visit, steps)


def _take_steps(visit: _Visit, steps: dict[str, Step]) -> Iterator[Upkeep]:
    """Each step gets its chance, whatever became of those before it."""
    clock = visit.ref.env.clock
    is_changed = False
    for service, step in steps.items():
        started = clock.monotonic()
        try:
            if is_changed:
                visit.look_again()
            is_changed = False
            for done in step(visit):
                is_changed = True
                seconds = clock.monotonic() - started
                started += seconds
                yield _tell(replace(done, seconds=seconds))
        except Exception as error:
            is_changed = True
            yield _tell(_describe_failure(service, error, clock.monotonic() - started))


def _describe_failure(service: str, error: Exception, seconds: float) -> Upkeep:
    is_left = isinstance(error, _OTHERS_WERE_FASTER)
    if not isinstance(error, HoodooError):
        log.error("service_failed service=%s", service, exc_info=error)
    text = str(error) if isinstance(error, HoodooError) else f"{type(error).__name__}: {error}"
    outcome = Outcome.LEFT if is_left else Outcome.FAILED
    return Upkeep(service, outcome, text, seconds=seconds)


def _tell(done: Upkeep) -> Upkeep:
    level = logging.WARNING if done.outcome is Outcome.FAILED else logging.INFO
    log.log(level, "upkeep service=%s outcome=%s %s", done.service, done.outcome.value, done.text)
    return done


# -- steps --------------------------------------------------------------------------------------


def _plan_and_run(service: PlannedService, switches: Switches) -> Step:
    """Plans that wait are run first; a new one is made only where none is pending."""

    def step(visit: _Visit) -> Iterator[Upkeep]:
        ref = visit.ref
        pending = find_plans(visit.timeline, service.action)
        if switches.runs:
            for plan in find_idle_plans(ref, pending):
                yield _run(visit, service, plan)
        if pending or not switches.plans or not service.is_due(ref, visit.timeline):
            return
        scheduled = service.schedule(ref, service.terms(ref.config))
        if scheduled is None:
            return
        if switches.runs:
            yield _run(visit, service, scheduled)
        else:
            name, time = service.action.value, scheduled.requested_time
            yield Upkeep(name, Outcome.PLANNED, f"planned {name} {time}", time)

    return step


def _run(visit: _Visit, service: PlannedService, plan: Instant) -> Upkeep:
    name, time = service.action.value, plan.requested_time
    try:
        done = service.run(visit.ref, time, visit.engine, visit.progress_of(name))
    except _OTHERS_WERE_FASTER as error:
        return Upkeep(name, Outcome.LEFT, str(error), time)
    assert done is not None
    outcome = Outcome.LEFT if done.was_done else Outcome.DONE
    return Upkeep(name, outcome, describe_result(done), time)


def describe_result(done: ServiceResult) -> str:
    """What a plan that is completed did, in a line."""
    if done.was_done:
        return f"{done.action} {done.instant} was completed by someone else"
    adopted = f", {done.adopted} adopted from an earlier attempt" if done.adopted else ""
    return f"{done.action} {done.instant}: {done.stats.files} files written{adopted}"


def _run_index(visit: _Visit) -> Iterator[Upkeep]:
    """Builds that someone planned, and nobody is at work on."""
    for plan in find_idle_plans(visit.ref, find_plans(visit.timeline, Action.INDEXING)):
        time, bars = plan.requested_time, visit.progress_of
        try:
            done = run_index(visit.ref, time, visit.engine, bars)
        except _OTHERS_WERE_FASTER as error:
            yield Upkeep("index", Outcome.LEFT, str(error), time)
            continue
        assert done is not None
        outcome = Outcome.LEFT if done.was_done else Outcome.DONE
        yield Upkeep("index", outcome, f"index {time}: built {', '.join(done.built)}", time)


def _compact_metadata(visit: _Visit) -> Iterator[Upkeep]:
    if not is_compaction_due(visit.ref):
        return
    time = compact_metadata_table(visit.ref)
    if time is not None:
        yield Upkeep("metadata", Outcome.DONE, f"compacted the metadata table at {time}", time)


def _clean(visit: _Visit) -> Iterator[Upkeep]:
    ref = visit.ref
    if is_clean_due(ref, visit.timeline):
        for done in clean(ref, visit.engine):
            text = f"clean {done.instant}: {len(done.files)} files deleted"
            yield Upkeep("clean", Outcome.DONE, text, done.instant)


def _archive(visit: _Visit) -> Iterator[Upkeep]:
    ref = visit.ref
    if is_archive_due(ref, visit.timeline):
        done = archive(ref, visit.engine)
        if done.instants or done.finished:
            count = len(done.instants) + len(done.finished)
            yield Upkeep("archive", Outcome.DONE, f"archive: {count} instants")


def _archive_batch(visit: _Visit) -> Iterator[Upkeep]:
    if is_batch_due(visit.ref, visit.timeline):
        yield from _archive(visit)


def _recover(visit: _Visit) -> Iterator[Upkeep]:
    done = recover(visit.ref)
    if done.rolled_back or done.swept.data_files or done.swept.leftovers:
        yield Upkeep("recover", Outcome.DONE, describe_recovery(done))


def describe_recovery(done: Recovered) -> str:
    """What a recover did, in a line."""
    return (
        f"recover: {len(done.rolled_back)} rolled back, {len(done.swept.data_files)} data files "
        f"and {len(done.swept.leftovers)} leftovers swept"
    )


def _cancel(visit: _Visit) -> Iterator[Upkeep]:
    yield from _tell_cancels(cancel_overdue(visit.ref, visit.timeline))


def _cancel_requested(visit: _Visit) -> Iterator[Upkeep]:
    yield from _tell_cancels(cancel_requested(visit.ref, visit.timeline))


def _tell_cancels(ended: Iterable[RolledBack]) -> Iterator[Upkeep]:
    for done in ended:
        text = f"cancelled {done.action} {done.instant}: {done.reason}"
        yield Upkeep("cancel", Outcome.DONE, text, done.instant)
