"""Commands that undo what died: recover, rollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hoodoo.cli import output
from hoodoo.cli.options import Json, OptionList, TableArgument, open_given

if TYPE_CHECKING:
    from hoodoo.inspect.timeline import InstantReport
    from hoodoo.model.instant import InstantTime
    from hoodoo.recovery.recover import Recovered
    from hoodoo.recovery.sweep import Swept

_PATHS = 20


def recover(table: TableArgument, option: OptionList = None, json: Json = False) -> None:
    """Roll back dead writes, finish cut-off rollbacks, sweep leftovers."""
    from hoodoo.concurrency.liveness import store_time_ms
    from hoodoo.inspect.timeline import report_timeline
    from hoodoo.recovery.recover import recover as run
    from hoodoo.table.writable import refuse_unwritable

    ref = open_given(table, option)
    refuse_unwritable(ref)
    pending = report_timeline(ref, last=0, store_ms=store_time_ms(ref.env))
    known = {one.requested_time: one for one in pending}
    found = run(ref)
    mended, left = list(_mended(found, known)), list(_left(found, known))
    if json:
        output.print_json({"rolled_back": mended, "left": left, "swept": found.swept})
    else:
        _print_recovered(mended, left, found.swept)


def rollback(
    table: TableArgument,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The pending instant.", show_default=False)
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Even if its writer seems to be alive.")
    ] = False,
    option: OptionList = None,
    json: Json = False,
) -> None:
    """Roll back one pending instant."""
    from hoodoo.recovery.recover import roll_back

    done = roll_back(open_given(table, option), instant, force=force)
    if json:
        output.print_json(done)
        return
    output.print_line(
        f"rolled back {done.instant} ({done.action}) by {done.rollback}: "
        f"{_count(done.files, 'data file')} deleted"
    )
    _print_paths(done.files)


@dataclass(frozen=True, slots=True)
class _Mended:
    """An instant that was rolled back; `is_finished`: someone else had begun with it."""

    instant: str
    action: str
    rollback: str
    is_finished: bool
    owner: str | None
    reason: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Left:
    """A pending instant that was left alone."""

    instant: str
    action: str
    state: str
    age_seconds: float | None
    owner: str | None
    reason: str


def _mended(found: Recovered, known: Mapping[InstantTime, InstantReport]) -> Iterator[_Mended]:
    for done in found.rolled_back:
        is_finished = done.rollback in known
        was = known.get(done.rollback if is_finished else done.instant)
        yield _Mended(
            done.instant,
            done.action,
            done.rollback,
            is_finished,
            was.owner if was else None,
            f"dead: {_last_sign(was)}" if was else "dead",
            done.files,
        )


def _left(found: Recovered, known: Mapping[InstantTime, InstantReport]) -> Iterator[_Left]:
    """Those that recover left, and those of which it does not tell."""
    done = {time for one in found.rolled_back for time in (one.instant, one.rollback)}
    left = {verdict.instant.requested_time: verdict for verdict in found.left}
    for time, verdict in left.items():
        was = known.get(time)
        if time not in done:
            action, state = verdict.instant.action.value, verdict.instant.state.value
            age, owner = (was.age_seconds, was.owner) if was else (None, None)
            yield _Left(time, action, state, age, owner, verdict.reason)
    for time, was in known.items():
        if time not in done and time not in left:
            reason = "it ended meanwhile, or someone else carries it on"
            yield _Left(time, was.action, was.state, was.age_seconds, was.owner, reason)


def _last_sign(was: InstantReport) -> str:
    silent, expiry = output.age_text(was.silent_seconds), output.age_text(was.expiry_seconds)
    return f"{was.owner}, silent for {silent}, dead after {expiry}"


def _print_recovered(mended: Sequence[_Mended], left: Sequence[_Left], swept: Swept) -> None:
    for done in mended:
        what = "finished the rollback of" if done.is_finished else "rolled back"
        told = f"{what} {done.instant} ({done.action}) by {done.rollback}"
        output.print_line(f"{told}: {_count(done.files, 'data file')} deleted")
        output.print_line(f"  {output.cell(done.reason)}")
        _print_paths(done.files)
    for one in left:
        age = f", {output.age_text(one.age_seconds)} old" if one.age_seconds is not None else ""
        output.print_line(f"left {one.instant} ({one.action}, {one.state}{age})")
        has_owner = one.owner is None or one.owner in one.reason
        why = one.reason if has_owner else f"{one.reason}; {one.owner}"
        output.print_line(f"  {output.cell(why)}")
    if swept.data_files or swept.leftovers:
        counts = _count(swept.data_files, "data file"), _count(swept.leftovers, "leftover")
        output.print_line(f"swept {counts[0]}, {counts[1]}")
        _print_paths(swept.data_files)
    elif not mended and not left:
        output.print_line("nothing to mend")


def _print_paths(paths: Sequence[str]) -> None:
    for path in paths[:_PATHS]:
        output.print_line(f"  {output.cell(path)}")
    if len(paths) > _PATHS:
        output.print_line(f"  and {len(paths) - _PATHS} more; --json lists all")


def _count(found: Sequence[str], word: str) -> str:
    return f"{len(found)} {word}" if len(found) == 1 else f"{len(found)} {word}s"
