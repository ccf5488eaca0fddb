"""The timeline and the files of a table as text of 80 columns, or raw: as they are on storage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

from hoodoo.cli.output import text

if TYPE_CHECKING:
    from hoodoo.inspect.files import GroupReport
    from hoodoo.inspect.timeline import InstantReport

_INSTANT = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})?")
_FILE_ID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-\d+)?")
_SIZES = ("slices", "base", "logs", "log size")


def time_text(instant: str | None) -> str:
    """`20261116015336526` as `2026-11-16 01:53:36.526`; what is no time stays as it is."""
    match = _INSTANT.fullmatch(instant or "")
    if match is None:
        return instant or ""
    year, month, day, hour, minute, second, millis = match.groups()
    return f"{year}-{month}-{day} {hour}:{minute}:{second}" + (f".{millis}" if millis else "")


def print_instants(instants: Sequence[InstantReport]) -> None:
    """Instants in 80 columns; what pending and damaged ones have to say is below them."""
    archive = [one for one in instants if one.is_archived]
    active = [one for one in instants if not one.is_archived]
    if archive:
        text.print_line("archived")
        _print_instants(archive)
        text.print_line("\nactive")
    _print_instants(active)
    owners = Counter(one.owner for one in instants if one.owner and one.age_seconds is None)
    if owners:
        text.print_line()
        for owner, count in owners.items():
            text.print_wrapped(f"{count} by {owner}")


def _print_instants(instants: Sequence[InstantReport]) -> None:
    rows = [
        (time_text(one.requested_time), _end_text(one), one.action, one.operation)
        for one in instants
    ]
    notes = {at: list(_notes(one)) for at, one in enumerate(instants)}
    text.print_table(("requested", "completed", "action", "operation"), rows, below=notes)


def _end_text(one: InstantReport) -> str:
    """When an instant ended, the day only if it is another one; its state if it did not."""
    start, end = time_text(one.requested_time), time_text(one.completion_time)
    if not end:
        return one.state
    if start[:10] == end[:10] or len(end) < 19 or len(start) < 19:
        return end[11:] or end
    days = (date.fromisoformat(end[:10]) - date.fromisoformat(start[:10])).days
    return f"{days:+}d {end[11:19]}"


def _notes(one: InstantReport) -> Iterator[str]:
    """What is to be told of an instant that is not simply done."""
    if one.age_seconds is not None:
        yield f"{text.age_text(one.age_seconds)} old"
        if one.owner:
            yield f"by {one.owner}"
    if one.silent_seconds is not None:
        yield describe_silence(one)
    if one.cancelled is not None:
        yield f"cancelled: {one.cancelled}"
    if one.problem is not None:
        yield f"problem: {one.problem}"


def describe_silence(one: InstantReport) -> str:
    """For how long its owner has been silent, and whether it is dead."""
    words = f"silent for at least {text.age_text(one.silent_seconds)}"
    return f"{words}: dead" if one.is_dead else words


def print_groups(groups: Sequence[GroupReport]) -> None:
    """File groups in 80 columns, below the partition that they are in."""
    headers = ("file id", "slices", "base time", "base", "logs", "log size")
    rows: list[tuple[object, ...]] = []
    above: dict[int, str] = {}
    for partition, members in groupby(groups, lambda group: group.partition):
        if partition:
            above[len(rows)] = str(partition)
        for group in members:
            _, file_id, slices, base_time, *sizes = raw_group(group)
            short = _FILE_ID.sub(r"\1..\2", str(file_id))
            rows.append((short, slices, time_text(str(base_time))[:19], *sizes))
    text.print_table(headers, rows, numbers=_SIZES, above=above)


def print_raw_groups(groups: Sequence[GroupReport]) -> None:
    """File groups with whole names, however wide."""
    headers = ("partition", "file id", "slices", "base time", "base", "logs", "log size")
    text.print_table(headers, map(raw_group, groups), numbers=_SIZES)


def raw_group(group: GroupReport) -> tuple[object, ...]:
    """A file group by its newest slice."""
    current = group.slices[-1]
    base = current.base_file
    return (
        group.partition,
        group.file_id,
        len(group.slices),
        current.base_time,
        text.size_text(base.size_bytes) if base else None,
        len(current.log_files),
        text.size_text(sum(log.size_bytes for log in current.log_files)),
    )
