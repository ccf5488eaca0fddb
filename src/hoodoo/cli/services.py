"""Commands that plan and run table services by hand: compact, log-compact, cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.engine import Master, Spark, open_engine, split_spark_settings
from hoodoo.cli.options import Json, OptionList, TableArgument, parse_options
from hoodoo.cli.progress import show_bars

if TYPE_CHECKING:
    from hoodoo.model.plan_terms import PlanTerms
    from hoodoo.services.planned import PlannedService
    from hoodoo.services.rewrite import ServiceResult
    from hoodoo.table.ref import TableRef

Instant = Annotated[
    str | None,
    typer.Argument(
        metavar="[INSTANT]", help="With --run: this plan, not the oldest.", show_default=False
    ),
]
Schedule = Annotated[bool, typer.Option("--schedule", help="Make a plan.")]
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
    instant: Instant = None,
    schedule: Schedule = False,
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
    instant: Instant = None,
    schedule: Schedule = False,
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
    instant: Instant = None,
    schedule: Schedule = False,
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
        name, scheduled = self._service.action.value, None
        if plans:
            scheduled = self._service.schedule(self._ref, terms)
            instant = scheduled.requested_time if scheduled else None
        done = self._run(instant) if runs and (instant or not plans) else None
        if self._as_json:
            planned = scheduled.requested_time if scheduled else None
            output.print_json({"scheduled": planned, "result": done})
            return
        if plans:
            output.print_line(
                f"planned {name} {instant} ({terms.policy.value})"
                if scheduled
                else f"no {name} planned: there is nothing to gain"
            )
        if done is not None:
            output.print_line(describe(done))
        elif not plans:
            output.print_line(f"no {name} is pending")

    def _run(self, instant: str | None) -> ServiceResult | None:
        name = self._service.action.value
        engine = open_engine(
            f"hoodoo {name}", spark=self._spark, master=self._master, settings=self._settings
        )
        with engine as runner, show_bars() as bars:
            return self._service.run(self._ref, instant, runner, bars(name))


def describe(done: ServiceResult) -> str:
    """A plan that is completed, in a line."""
    if done.was_done:
        return f"{done.action} {done.instant}: someone else has completed it"
    size = output.size_text(done.stats.bytes)
    adopted = f"; {done.adopted} items adopted from an earlier attempt" if done.adopted else ""
    return f"{done.action} {done.instant}: {done.stats.files} files, {size}{adopted}"


def _find_service(action: str) -> PlannedService:
    from hoodoo.services.planned import PLANNED_SERVICES

    return next(service for service in PLANNED_SERVICES if service.action.value == action)


def _build_terms(
    removable: bool, cancellable: bool, hours: float | None, instants: int | None
) -> PlanTerms:
    from hoodoo.services.terms import build_terms

    given = {"hours": hours, "instants": instants}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    return build_terms(cancellable=cancellable, removable=removable, limits=limits or None)
