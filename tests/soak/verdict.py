"""What is wrong with a table, given the journals of its writers. Pure functions of rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from soak.writes import Outcome, Write

Rows = list[dict[str, Any]]
Attribute = Callable[[Write, Write], bool]

KINDS = {
    "duplicates": "keys that are there more than once",
    "lost": "acknowledged writes that are not there",
    "visible refused": "refused writes of which a row is visible",
    "stale": "keys that do not have the value of the last write that was committed",
    "torn": "writes of unknown outcome that are there in part",
    "unwritten": "rows that nobody wrote",
    "missed": "committed writes that incremental reads did not show",
    "repeated": "writes that incremental reads showed twice, or that were refused",
    "other": "anything else",
}


@dataclass
class Findings:
    """What is wrong: by kind (see `KINDS`), each thing once, with what there is to say of it."""

    by_kind: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, kind: str, what: str, detail: object = "") -> None:
        """Note something; the first detail about it stays."""
        assert kind in KINDS, kind
        self.by_kind[kind].setdefault(what, str(detail))

    def include(self, lists: Mapping[str, Iterable[tuple[str, str]]], where: str) -> None:
        """Note what others found, as `as_lists` gives it."""
        for kind, found in lists.items():
            for what, detail in found:
                self.add(kind, what, f"{where}: {detail}")

    def as_lists(self) -> dict[str, list[tuple[str, str]]]:
        return {kind: list(found.items()) for kind, found in self.by_kind.items()}

    def count(self, kind: str) -> int:
        return len(self.by_kind.get(kind, ()))

    def __bool__(self) -> bool:
        return any(self.by_kind.values())


def check_meanwhile(rows: Rows, before: list[Write], after: list[Write]) -> Findings:
    """What is wrong with a read that began after `before` was noted and ended before `after` was.

    What was acknowledged before it must be in it. What has been refused must not.
    """
    findings = Findings()
    by_id = _by_id(rows)
    _find_duplicates(findings, by_id)
    _find_lost(findings, by_id, before)
    _find_visible_refused(findings, rows, after)
    return findings


def check_at_end(
    rows: Rows,
    writes: list[Write],
    completions: Mapping[str, str],
    *,
    is_excused: Attribute = lambda first, second: False,
) -> Findings:
    """What is wrong with the table when all writers have ended and the dead are rolled back.

    `completions` maps the instant of each commit to the time when it was completed.
    `is_excused` tells whether a commit that should have met a conflict with an earlier one is
    of a writer that does not promise to.
    """
    findings = Findings()
    by_id = _by_id(rows)
    _find_duplicates(findings, by_id)
    _find_lost(findings, by_id, writes)
    _find_visible_refused(findings, rows, writes)
    _find_torn_and_unwritten(findings, rows, by_id, writes)
    order = committed(by_id, writes, completions)
    for write in writes:
        is_there = write in order or write.outcome is not Outcome.ACKNOWLEDGED
        if not is_there and write.witness in by_id:
            findings.add("lost", write.witness, f"{write}: its instant is not on the timeline")
    _find_stale(findings, by_id, order)
    _excuse(findings, order, is_excused)
    return findings


def check_windows(
    windows: Iterable[Mapping[str, Any]], rows: Rows, writes: Iterable[Write]
) -> Findings:
    """What is wrong with a series of incremental reads: each commit is in exactly one."""
    findings = Findings()
    seen = Counter(witness for window in windows for witness in window["witnesses"])
    there = {row["id"] for row in rows}
    for write in writes:
        is_committed = write.outcome is Outcome.ACKNOWLEDGED or write.witness in there
        if is_committed and not seen[write.witness]:
            findings.add("missed", write.witness, write)
        elif seen[write.witness] > is_committed:
            findings.add("repeated", write.witness, f"{seen[write.witness]} times: {write}")
    return findings


def committed(
    by_id: Mapping[str, Rows], writes: Iterable[Write], completions: Mapping[str, str]
) -> list[Write]:
    """The writes that are on the timeline, in the order in which they were completed."""
    found: list[tuple[str, str, Write]] = []
    for write in writes:
        instant = write.instant
        if instant is None and write.witness in by_id:
            instant = by_id[write.witness][0]["_hoodie_commit_time"]
        if instant in completions and write.outcome is not Outcome.REFUSED:
            found.append((completions[instant], instant, write))
    return [write for _, _, write in sorted(found, key=lambda each: each[:2])]


def _by_id(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = defaultdict(list)
    for row in rows:
        found[row["id"]].append(row)
    return dict(found)


def _find_duplicates(findings: Findings, by_id: Mapping[str, Rows]) -> None:
    for key, found in by_id.items():
        if len(found) > 1:
            findings.add("duplicates", key, found)


def _find_lost(findings: Findings, by_id: Mapping[str, Rows], writes: Iterable[Write]) -> None:
    for write in writes:
        if write.outcome is not Outcome.ACKNOWLEDGED:
            continue
        found = by_id.get(write.witness, [])
        if not any(_is_witness_of(row, write) for row in found):
            findings.add("lost", write.witness, f"{write}: {found or 'no witness'}")


def _is_witness_of(row: Mapping[str, Any], write: Write) -> bool:
    instant = row.get("_hoodie_commit_time", write.instant)
    return bool(row["v"] == write.v and write.instant in (None, instant))


def _find_visible_refused(findings: Findings, rows: Rows, writes: Iterable[Write]) -> None:
    refused = {write.v: write for write in writes if write.outcome is Outcome.REFUSED}
    for row in rows:
        if row["v"] in refused:
            write = refused[row["v"]]
            findings.add("visible refused", write.witness, f"{write}: {row}")


def _find_torn_and_unwritten(
    findings: Findings, rows: Rows, by_id: Mapping[str, Rows], writes: Iterable[Write]
) -> None:
    by_value = {write.v: write for write in writes}
    for row in rows:
        write = by_value.get(row["v"])
        if write is None or row["id"] not in (write.witness, *write.keys):
            findings.add("unwritten", row["id"], row)
        elif write.outcome is Outcome.UNKNOWN and write.witness not in by_id:
            findings.add("torn", write.witness, f"{write}: {row}")


def _find_stale(findings: Findings, by_id: Mapping[str, Rows], order: list[Write]) -> None:
    last = {key: write for write in order for key in write.keys}
    for key, write in last.items():
        found = by_id.get(key, [])
        if len(found) <= 1 and [row["v"] for row in found] != [write.v]:
            findings.add("stale", key, f"should be of {write}: {found or 'not there'}")


def _excuse(findings: Findings, order: list[Write], is_excused: Attribute) -> None:
    """Take out what a later write of somebody who makes no such promise may have done."""
    position = {write: n for n, write in enumerate(order)}
    by_witness = {write.witness: write for write in order}
    last = {key: write for write in order for key in write.keys}
    for kind, owner in (("lost", by_witness), ("stale", last)):
        for what in list(findings.by_kind.get(kind, ())):
            victim = owner.get(what)
            if victim is None:
                continue
            others = (other for other in order if other != victim)
            if any(
                is_excused(*sorted((victim, other), key=position.__getitem__)) for other in others
            ):
                del findings.by_kind[kind][what]
