"""The command about writes in progress: conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.cli.output import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoodoo.inspect.conflicts import ClashReport, InProgressReport


_GROUPS = 3


def print_conflicts(reports: Sequence[InProgressReport], indent: str = "") -> None:
    """All of them in a table, then each with what it touches, and how it gets on with others."""
    headers = ("instant", "operation", "status", "phase", "age", "file groups", "owner")
    rows = [
        (
            each.instant,
            each.operation,
            each.status,
            each.phase,
            text.age_text(each.age_seconds),
            len(each.file_groups),
            _owner(each),
        )
        for each in reports
    ]
    text.print_table(headers, rows, numbers={"file groups"}, indent=indent)
    for each in reports:
        text.print_line()
        for line in _details(each):
            text.print_line(indent + text.cell(line))


def _owner(one: InProgressReport) -> str:
    if one.app is not None:
        return f"{one.app} on {one.host}, process {one.pid}"
    return "nobody" if one.status == "waiting" else "unknown"


def _details(one: InProgressReport) -> list[str]:
    what = f"{one.operation} {one.instant}" + (f" ({one.policy})" if one.policy else "")
    groups = [f"{group.partition}/{group.file_id}".lstrip("/") for group in one.file_groups]
    lines = [f"{what} touches{'' if groups else ' no file group yet'}"]
    lines += _list_groups(groups)
    if one.status == "dead" and one.silent_seconds is not None:
        silence = text.age_text(one.silent_seconds)
        lines.append(f"  it is dead: silent for at least {silence}")
    lines += (f"  problem: {problem}" for problem in one.problems)
    for clash in one.clashes:
        lines += _tell(one, clash)
    return lines


def _tell(one: InProgressReport, clash: ClashReport) -> list[str]:
    winner = clash.older if clash.loser == one.instant else one.instant
    lines = []
    for overlap in clash.overlaps:
        outcome = {
            "loses": f"{clash.loser} will lose to {winner}: {overlap.reason}",
            "loses if second": (
                f"{clash.loser} will lose if {winner} commits first: {overlap.reason}"
            ),
            "second loses": (
                f"of {clash.older} and {one.instant} whichever commits second will lose over"
            ),
            "both commit": f"{clash.older} and {one.instant} can both commit; they share",
        }[clash.outcome]
        lines += [f"  {outcome}", *(f"  {line}" for line in _list_groups(overlap.file_groups))]
    return lines


def _list_groups(groups: Sequence[str]) -> list[str]:
    more = len(groups) - _GROUPS
    rest = [f"  and {more} more"] if more > 0 else []
    return [*(f"  {group}" for group in groups[:_GROUPS]), *rest]
