"""The change feed of random histories is the difference of two dicts, whatever services did."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.change_feed_table import (
    COLUMNS,
    SERVICES,
    WRITES,
    Followed,
    changes_in,
    expected_changes,
    follow_new_table,
)
from support.histories import histories

from hoodoo.errors import SnapshotCleaned

pytestmark = pytest.mark.slow

STEPS = st.lists(st.one_of(st.sampled_from(WRITES), st.sampled_from(SERVICES)), max_size=12)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("is_global", [False, True])
@settings(max_examples=histories(6))
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_changes_are_the_difference_of_snapshots(
    kind: str, is_global: bool, steps: list[str], seed: int
) -> None:
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        followed = follow_new_table(Path(folder), kind, is_global=is_global)
        for step in ("insert", "upsert", *steps):
            if step in SERVICES:
                followed.run_service(step)
            else:
                followed.play(step, chance)
            assert followed.read() == followed.state, step
        check_all_windows(followed)


def check_all_windows(followed: Followed) -> None:
    """Each window of two commits that is kept, and the one from the beginning to each commit."""
    table, past = followed.table, followed.past
    kept = {time for time, _ in past[-3:]}
    assert changes_in(table.changes(since="2000-01-01", deletes=True)) == expected_changes(
        {}, past[-1][1]
    )
    for number, (since, old) in enumerate(past):
        for until, new in past[number:]:
            asked = {"until": until, "deletes": True, "before": True, "columns": COLUMNS}
            try:
                found = table.changes(since=since, **asked)
            except SnapshotCleaned as error:
                assert since not in kept
                oldest = error.oldest_readable_instant
                table.changes(since=oldest or "none", deletes=True)
                continue
            assert changes_in(found) == expected_changes(old, new), (since, until)
        try:
            found = table.changes(since="earliest", until=since, deletes=True)
        except SnapshotCleaned:
            assert since not in kept
        else:
            assert changes_in(found) == expected_changes({}, old)
