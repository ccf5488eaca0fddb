"""Tables with Apache Hudi's CDC log: our changes are its CDC query's, reduced to net changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compat.peer_client import Peer
from compat.peer_rows import FIRST, trips
from compat.peer_tables import COMMIT_TIME, COMPACT, MOR, Maker

import hoodoo

CDC = {"hoodie.table.cdc.enabled": "true"}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
MODES = ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")
EARLIEST = "000"
COLUMNS = ["id", "city", "ts", "fare"]

Values = tuple[Any, ...]
Image = tuple[str, Values]
"""A change type, and a row."""


def make_history(table: Maker) -> None:
    """Rows that come, change, go, come back, are put back, and come and go within a window."""
    table.write(trips(*FIRST), "insert")
    table.upsert("a sf 2 11", "f rome 1 60", "g sf 1 70")
    table.delete("b sf 3 0", "e ny 3 0")
    table.write(trips("a sf 3 10", "b sf 4 21"), options=COMPACT if _is_mor(table) else {})
    table.upsert("c la 5 31", "g sf 5 70", "h la 1 80")
    table.delete("h la 6 0", "a sf 6 0")
    table.write(trips("x ny 1 1"), "insert")


def _is_mor(table: Maker) -> bool:
    return MOR.items() <= table.options.items()


def cdc_query(hudi: Peer, path: Path, since: str, until: str) -> pa.Table:
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": since,
        "hoodie.datasource.read.end.instanttime": until,
    }
    return hudi.read(path, options)


def net_changes(records: pa.Table) -> list[Image]:
    """What remains of a key's changes: its first image before and its last one after."""
    ends: dict[tuple[str, str], list[Values | None]] = {}
    for record in sorted(records.to_pylist(), key=lambda record: record["ts_ms"]):
        before, after = _values(record["before"]), _values(record["after"])
        values = after or before
        assert values
        ends.setdefault((values[0], values[1]), [before, after])[1] = after
    return sorted(image for before, after in ends.values() for image in _images(before, after))


def _values(text: str | None) -> Values | None:
    row = json.loads(text) if text else None
    return row and tuple(row[name] for name in COLUMNS)


def _images(before: Values | None, after: Values | None) -> Iterator[Image]:
    if before is None and after is not None:
        yield "insert", after
    elif before is not None and after is None:
        yield "delete", before
    elif before is not None and after is not None and before != after:
        yield "update_preimage", before
        yield "update_postimage", after


def our_changes(table: hoodoo.Table, since: str, until: str) -> list[Image]:
    changes = table.changes(
        since=since, until=until, deletes=True, before=True, columns=COLUMNS
    ).to_pydict()
    types = changes.pop("_change_type")
    return sorted(zip(types, zip(*changes.values(), strict=True), strict=True))


def check_windows(hudi: Peer, path: Path) -> None:
    """Each commit's own window, and the one from each commit to the end."""
    table = hoodoo.open_table(str(path))
    times = sorted(one.completion_time for one in table.timeline() if one.completion_time)
    starts = [EARLIEST, *times[:-1]]
    types = set()
    for since, until in {*zip(starts, times, strict=True), *((one, times[-1]) for one in starts)}:
        ours = our_changes(table, "earliest" if since == EARLIEST else since, until)
        assert ours == net_changes(cdc_query(hudi, path, since, until)), (since, until)
        types.update(change for change, _ in ours)
    assert types == {"insert", "delete", "update_preimage", "update_postimage"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_changes_are_those_of_the_cdc_query(
    hudi: Peer, tmp_path: Path, kind: dict[str, str], mode: str
) -> None:
    made = Maker(hudi, tmp_path / "t", CDC | COMMIT_TIME | {MODE: mode} | kind)
    make_history(made)
    assert list(made.path.rglob("*.cdc")), "Hudi wrote no CDC log"
    if kind:
        made.shows("*_*.commit")  # the compaction
    check_windows(hudi, made.path)


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_updates_that_came_too_late_are_no_changes(
    hudi: Peer, tmp_path: Path, kind: dict[str, str]
) -> None:
    made = Maker(hudi, tmp_path / "t", CDC | kind)
    made.write(trips(*FIRST), "insert")
    made.upsert("a sf 2 11", "c la 0 -1")  # c is there with a larger ts
    made.delete("b sf 3 0")
    check_windows(hudi, made.path)
