"""Which instants leave the active timeline, decided without a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hoodoo.format.timeline.history import ManifestEntry
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.services.archive.archive import ArchiveFacts, choose_instants_to_archive
from hoodoo.services.archive.history_writer import HistoryRules, choose_merge
from hoodoo.table.timeline import Timeline


def at(number: int) -> InstantTime:
    return InstantTime(f"2026010100{number:07d}")


def done(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(at(number), action, State.COMPLETED, at(number + 1))


COMMITS = [done(n) for n in range(10, 110, 10)]


def facts(*others: Instant, **rest: object) -> ArchiveFacts:
    timeline = Timeline.of([*COMMITS, *others])
    ages = {instant.requested_time: 100 for instant in timeline}
    made = ArchiveFacts(timeline, keep_min=4, keep_max=6, ages_ms=ages, settled_ms=50)
    return replace(made, **rest)  # type: ignore[arg-type] # by name


def leaving(*others: Instant, **rest: object) -> list[int]:
    return [
        int(i.requested_time[10:])
        for i in choose_instants_to_archive(facts(*others, **rest)).instants_to_archive
    ]


def test_the_oldest_commits_leave_until_so_many_are_left() -> None:
    assert leaving() == [10, 20, 30, 40, 50, 60]
    assert leaving(keep_max=10) == []


def test_archival_stops_at_last_commit_before_oldest_pending_instant() -> None:
    pending = Instant(at(45), Action.DELTA_COMMIT, State.INFLIGHT)
    assert leaving(pending) == [10, 20, 30]
    assert leaving(Instant(at(45), Action.CLEAN, State.REQUESTED)) == [10, 20, 30]
    assert leaving(Instant(at(5), Action.COMMIT, State.INFLIGHT)) == []


def test_nothing_leaves_at_or_above_a_bound() -> None:
    """For example, a rolled back instant that is to be swept once more."""
    assert leaving(bounds=[at(30)]) == [10, 20]
    assert leaving(bounds=[at(35), at(90)]) == [10, 20, 30]


def test_commits_that_are_young_stay_and_so_do_those_above_them() -> None:
    ages = {at(n): 100 for n in range(10, 110, 10)} | {at(30): 50}
    assert leaving(ages_ms=ages) == [10, 20]


def test_a_savepoint_ends_archival_or_is_passed_over() -> None:
    saved = Instant(at(30), Action.SAVEPOINT, State.COMPLETED, at(99))
    assert leaving(saved) == [10, 20]
    assert leaving(saved, passes_savepoints=True) == [10, 20, 40, 50, 60, 70]


def test_below_a_commit_that_was_passed_over_instants_still_count_as_archived() -> None:
    saved = Instant(at(30), Action.SAVEPOINT, State.COMPLETED, at(99))
    timeline = Timeline.of([done(30), saved, *COMMITS[7:]])
    assert timeline.oldest_active_write == at(80)


def test_cleans_and_rollbacks_leave_with_the_commits_around_them() -> None:
    others = [
        done(15, Action.CLEAN),
        done(25, Action.ROLLBACK),
        done(35, Action.RESTORE),
        done(75, Action.ROLLBACK),
    ]
    assert leaving(*others, done(85, Action.CLEAN)) == [10, 15, 20, 25, 30, 40, 50, 60]


def test_the_last_clean_stays() -> None:
    """It tells which commits can still be read as of."""
    assert leaving(done(15, Action.CLEAN), done(25, Action.CLEAN)) == [10, 15, 20, 30, 40, 50, 60]


def test_tombstones_are_dropped_with_the_commits_around_them() -> None:
    old = Instant(at(25), Action.CLUSTERING, State.ABORTED)
    young = Instant(at(75), Action.CLUSTERING, State.ABORTED)
    chosen = choose_instants_to_archive(facts(old, young))
    assert chosen.instants_to_drop == (old,)
    assert old not in chosen.instants_to_archive


@pytest.mark.parametrize(
    ("sizes", "merged"), [([1, 1], 0), ([1, 1, 1, 1], 3), ([9, 9, 1, 1], 2), ([60, 1, 1, 1], 3)]
)
def test_the_oldest_files_of_a_full_layer_are_merged(sizes: list[int], merged: int) -> None:
    entries = [
        ManifestEntry(f"{at(n * 10)}_{at(n * 10 + 5)}_0.parquet", size)
        for n, size in enumerate(sizes)
    ]
    other = ManifestEntry(f"{at(0)}_{at(9)}_1.parquet", 1)
    rules = HistoryRules(batch=3, most_bytes=15)
    chosen = choose_merge([other, *reversed(entries)], 0, rules)
    assert len(chosen) == merged
    assert chosen == sorted(chosen, key=lambda entry: entry.file_name)
    if sizes[0] > rules.most_bytes:
        assert entries[0] not in chosen
