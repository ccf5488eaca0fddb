"""Commands that run table services: compact, log-compact and cluster by hand, upkeep as a process.

`upkeep` keeps tables healthy beside their writers.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.output import text
from hoodoo.cli.output import text as output
from hoodoo.cli.output.progress import show_bars
from hoodoo.cli.spark import Master, Spark, open_engine, split_spark_settings
from hoodoo.errors import HoodooError

if TYPE_CHECKING:
    from hoodoo.model.plans import PlanTerms
    from hoodoo.runtime.engine import Engine
    from hoodoo.services.plans.execute import ServiceResult
    from hoodoo.services.registry import PlannedService
    from hoodoo.services.upkeep import ServiceReport
    from hoodoo.table.ref import TableRef


# -- one service by hand ---------------------------------------------------------------------------


InstantArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[INSTANT]", help="With --run: this plan, not the oldest.", show_default=False
    ),
]
ScheduleOption = Annotated[bool, typer.Option("--schedule", help="Make a plan.")]
Run = Annotated[bool, typer.Option("--run", help="Run a plan.  [default: make one and run it]")]
Removable = Annotated[
    bool, typer.Option("--removable", help="A clean may drop the plan once its execution failed.")
]
Cancellable = Annotated[bool, typer.Option("--cancellable", help="The plan gives way to writes.")]
Hours = Annotated[
    float | None,
    typer.Option(
        "--cancel-after-hours", min=0, help="When a cancellable plan ends.", show_default=False
    ),
]
Instants = Annotated[
    int | None,
    typer.Option(
        "--cancel-after-instants", min=0, help="The same, in commits.", show_default=False
    ),
]


def compact(
    table: TableArgument,
    instant: InstantArgument = None,
    schedule: ScheduleOption = False,
    run: Run = False,
    cancellable: Cancellable = False,
    cancel_after_hours: Hours = None,
    cancel_after_instants: Instants = None,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Merge logs into base files: plan it, run it, or both."""
    terms = _build_terms(False, cancellable, cancel_after_hours, cancel_after_instants)
    command = _Command("compaction", table, parse_options(option), spark, master, json)
    command.carry_out(instant, terms, schedule=schedule, run=run)


def log_compact(
    table: TableArgument,
    instant: InstantArgument = None,
    schedule: ScheduleOption = False,
    run: Run = False,
    removable: Removable = False,
    cancellable: Cancellable = False,
    cancel_after_hours: Hours = None,
    cancel_after_instants: Instants = None,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Merge small logs into larger ones: plan it, run it, or both."""
    terms = _build_terms(removable, cancellable, cancel_after_hours, cancel_after_instants)
    command = _Command("logcompaction", table, parse_options(option), spark, master, json)
    command.carry_out(instant, terms, schedule=schedule, run=run)


def cluster(
    table: TableArgument,
    instant: InstantArgument = None,
    schedule: ScheduleOption = False,
    run: Run = False,
    order_by: Annotated[
        str | None,
        typer.Option("--order-by", metavar="A,B", help="Columns to sort by.", show_default=False),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="linear, zorder or hilbert.", show_default=False),
    ] = None,
    removable: Removable = False,
    cancellable: Cancellable = False,
    cancel_after_hours: Hours = None,
    cancel_after_instants: Instants = None,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Put rows of small files together, in an order: plan it, run it, or both."""
    from hoodoo.config.clustering import CLUSTER_LAYOUT, CLUSTER_SORT_COLUMNS

    options = parse_options(option)
    if order_by is not None:
        options[CLUSTER_SORT_COLUMNS.name] = order_by
    if layout is not None:
        options[CLUSTER_LAYOUT.name] = layout
    terms = _build_terms(removable, cancellable, cancel_after_hours, cancel_after_instants)
    command = _Command("clustering", table, options, spark, master, json)
    command.carry_out(instant, terms, schedule=schedule, run=run)


class _Command:
    """A service by its name, and where it is to be done."""

    def __init__(
        self,
        action: str,
        table: str,
        options: dict[str, str],
        spark: bool,
        master: str,
        as_json: bool,
    ) -> None:
        from hoodoo.table.ref import open_ref

        self._service = _find_service(action)
        options, self._settings = split_spark_settings(options)
        self._ref: TableRef = open_ref(table, options)
        self._spark, self._master, self._as_json = spark, master, as_json

    def carry_out(
        self, instant: str | None, terms: PlanTerms, *, schedule: bool, run: bool
    ) -> None:
        """Plan, run, or both, which is what happens if neither is said."""
        if instant is not None and (schedule or not run):
            raise typer.BadParameter("INSTANT goes with --run alone")
        plans, runs = schedule or not run, run or not schedule
        name, plan = self._service.action.value, None
        if plans:
            plan = self._service.schedule(self._ref, terms)
            instant = plan.requested_time if plan else None
        result = self._run(instant) if runs and (instant or not plans) else None
        if self._as_json:
            plan_time = plan.requested_time if plan else None
            text.print_json({"scheduled": plan_time, "result": result})
            return
        if plans:
            text.print_line(
                f"planned {name} {instant} ({terms.policy.value})"
                if plan
                else f"no {name} planned: there is nothing to gain"
            )
        if result is not None:
            text.print_line(describe(result))
        elif not plans:
            text.print_line(f"no {name} is pending")

    def _run(self, instant: str | None) -> ServiceResult | None:
        name = self._service.action.value
        engine = open_engine(
            f"hoodoo {name}", spark=self._spark, master=self._master, settings=self._settings
        )
        with engine as runner, show_bars() as bars:
            return self._service.run(self._ref, instant, runner, bars(name))


def describe(result: ServiceResult) -> str:
    """A plan that is completed, in a line."""
    if result.completed_by_other:
        return f"{result.action} {result.instant}: someone else has completed it"
    size = text.size_text(result.stats.bytes)
    reuse_text = (
        f"; {result.reused_items} items adopted from an earlier attempt"
        if result.reused_items
        else ""
    )
    return f"{result.action} {result.instant}: {result.stats.files} files, {size}{reuse_text}"


def _find_service(action: str) -> PlannedService:
    from hoodoo.services.registry import PLANNED_SERVICES

    return next(service for service in PLANNED_SERVICES if service.action.value == action)


def _build_terms(
    removable: bool, cancellable: bool, hours: float | None, instants: int | None
) -> PlanTerms:
    from hoodoo.services.plans.pending import build_terms

    options = {"hours": hours, "instants": instants}
    limits = {name: limit for name, limit in options.items() if limit is not None}
    return build_terms(cancellable=cancellable, removable=removable, limits=limits or None)


# -- all services, again and again -----------------------------------------------------------------


def upkeep(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="Paths or URIs of tables.", show_default=False),
    ],
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --watch: how often.")
    ] = 60.0,
    spark: Spark = False,
    master: Master = "local[*]",
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Run every table service that is due, and plans that wait; several may run."""
    from hoodoo.table.ref import open_ref

    options, settings = split_spark_settings(parse_options(option))
    refs = {table: open_ref(table, options) for table in tables}
    engine = open_engine("hoodoo upkeep", spark=spark, master=master, settings=settings)
    has_failed = False
    try:
        with _end_by_signal(), engine as runner:
            while True:
                for table, ref in refs.items():
                    has_failed |= _visit(table, ref, runner, as_json=json)
                if not watch:
                    break
                sys.stdout.flush()
                next(iter(refs.values())).env.clock.sleep(every)
    except KeyboardInterrupt:
        if not json:
            output.print_line("stopped")
        return
    if has_failed:
        raise typer.Exit(1)


def _visit(table: str, ref: TableRef, engine: Engine, *, as_json: bool) -> bool:
    """One round on one table; whether anything failed."""
    from hoodoo.services.upkeep import ServiceOutcome, run_due_services

    reports: list[ServiceReport] = []
    has_failed = False
    try:
        with show_bars() as bars:
            for each in run_due_services(ref.reopen(), engine, bars):
                reports.append(each)
                has_failed |= each.outcome is ServiceOutcome.FAILED
                _print(table, each, as_json=as_json)
    except HoodooError as error:
        output.print_error(HoodooError(f"{table}: {error}"))
        return True
    if not reports and not as_json:
        output.print_line(f"{table}: nothing is due")
    return has_failed


def _print(table: str, report: ServiceReport, *, as_json: bool) -> None:
    from hoodoo.services.upkeep import ServiceOutcome

    if as_json:
        output.print_json_line(
            {
                "table": table,
                "service": report.service,
                "outcome": report.outcome.value,
                "instant": report.instant,
                "text": report.text,
                "seconds": round(report.seconds, 3),
            }
        )
    elif report.outcome is ServiceOutcome.FAILED:
        output.print_error(HoodooError(f"{table}: {report.service} failed: {report.text}"))
    else:
        prefix = "left " if report.outcome is ServiceOutcome.LEFT else ""
        text = output.cell(report.text)
        output.print_line(f"{table}: {prefix}{text} ({report.seconds:.1f} s)")
    sys.stdout.flush()


@contextmanager
def _end_by_signal() -> Iterator[None]:
    """SIGTERM, by which containers are ended, is as Ctrl-C: what runs is given up in order."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
