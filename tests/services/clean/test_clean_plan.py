"""What a clean keeps and deletes, decided without a table."""

from __future__ import annotations

from collections.abc import Sequence

from hoodoo.config.retention import CleanPolicy
from hoodoo.model.files import BaseFile, FileGroup, FileGroupId, FileSlice
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import BaseFileName, FileId, WriteToken
from hoodoo.model.paths import PartitionPath
from hoodoo.services.clean.plan import (
    CleanFacts,
    LastClean,
    RetainedViews,
    Retention,
    choose_retained_views,
    drop_protected_files,
    file_name,
    find_newly_settled_commits,
    plan_clean,
)

PART = PartitionPath("p")
BY_VERSIONS = CleanPolicy.KEEP_LATEST_FILE_VERSIONS
BY_HOURS = CleanPolicy.KEEP_LATEST_BY_HOURS


def at(number: int) -> InstantTime:
    return InstantTime(f"2026010100{number:07d}")


def commit(requested: int, completed: int | None = None) -> Instant:
    ended = at(requested if completed is None else completed)
    return Instant(at(requested), Action.COMMIT, State.COMPLETED, ended)


def pending(requested: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(at(requested), action, State.INFLIGHT)


def group(name: str, *times: int) -> FileGroup:
    group_id = FileGroupId(PART, FileId(name))
    token = WriteToken("0-1-0")
    files = [BaseFile(PART, BaseFileName(group_id.file_id, token, at(n)), 1) for n in times]
    slices = [FileSlice(group_id, file.name.requested_time, file) for file in files]
    return FileGroup(group_id, tuple(slices))


def earliest(
    count: int, commits: Sequence[Instant], waiting: Sequence[Instant] = (), **rest: object
) -> InstantTime | None:
    kept = choose_retained_views(Retention(count=count), commits, waiting, **rest)  # type: ignore[arg-type] # a LastClean
    return kept.earliest.requested_time if kept.earliest else None


def deleted(facts: CleanFacts) -> set[str]:
    by_partition = plan_clean(facts).file_paths_to_be_deleted_per_partition or {}
    return {file_name(info) for infos in by_partition.values() for info in infos}


def facts(groups: Sequence[FileGroup], kept: RetainedViews, **rest: object) -> CleanFacts:
    retention = rest.pop("retention", Retention())
    completions = rest.pop("completions", {})
    return CleanFacts(retention, kept, groups, completions, **rest)  # type: ignore[arg-type] # by name


def test_nothing_is_kept_from_a_commit_on_until_there_are_more_than_are_retained() -> None:
    commits = [commit(n) for n in range(10, 60, 10)]
    assert earliest(5, commits) is None
    assert earliest(4, commits) == at(20)
    assert earliest(1, commits) == at(50)


def test_what_is_pending_holds_the_earliest_commit_back() -> None:
    commits = [commit(n) for n in range(10, 60, 10)]
    assert earliest(1, commits, [pending(35)]) == at(30)
    assert earliest(1, commits, [pending(25, Action.COMPACTION)]) == at(20)
    assert earliest(1, commits, [pending(5)]) is None


def test_the_earliest_commit_never_moves_back() -> None:
    commits = [commit(n) for n in range(10, 60, 10)]
    assert earliest(4, commits, last=LastClean(at(40))) == at(40)


def test_one_clean_moves_on_by_so_many_commits_at_most() -> None:
    commits = [commit(n) for n in range(10, 110, 10)]
    retention = Retention(count=1, most_commits=3)
    first = choose_retained_views(retention, commits, [])
    assert first.earliest == commits[3]
    assert choose_retained_views(retention, commits, [], LastClean(at(40))).earliest == commits[6]


def test_by_hours_the_first_commit_that_is_young_enough_is_the_earliest() -> None:
    commits = [commit(n) for n in range(10, 60, 10)]
    kept = choose_retained_views(Retention(BY_HOURS, since=at(35)), commits, [])
    assert kept.earliest == commits[3]
    assert choose_retained_views(Retention(BY_HOURS, since=at(5)), commits, []).earliest is None
    assert choose_retained_views(Retention(BY_HOURS, since=at(99)), commits, []).earliest is None


def test_a_slice_goes_once_a_later_one_is_older_than_the_earliest_commit() -> None:
    kept = RetainedViews(commit(30), at(30))
    assert deleted(facts([group("g", 10, 20, 30, 40)], kept)) == {
        "g_0-1-0_20260101000000010.parquet"
    }
    assert deleted(facts([group("g", 10, 30, 40)], kept)) == set()


def test_a_commit_that_completed_late_does_not_take_the_place_of_another_yet() -> None:
    """Who follows the table reads a window that ends before it completed."""
    commits = [commit(10), commit(20, completed=45), commit(30), commit(40), commit(50)]
    completions = {c.requested_time: c.completion_or_requested_time for c in commits}
    kept = choose_retained_views(Retention(count=3), commits, [])
    assert kept.earliest == commits[2]
    assert deleted(facts([group("g", 10, 20)], kept, completions=completions)) == set()
    later = choose_retained_views(Retention(count=1), commits, [])
    assert deleted(facts([group("g", 10, 20)], later, completions=completions)) != set()


def test_a_slice_that_a_writer_at_work_planned_on_stays() -> None:
    """It began before the commit that made it old completed."""
    commits = [commit(10), commit(20, completed=36), commit(30, completed=37), commit(40)]
    completions = {c.requested_time: c.completion_or_requested_time for c in commits}
    kept = choose_retained_views(Retention(count=1), commits, [pending(35)])
    assert kept.earliest == commits[2]
    assert deleted(facts([group("g", 10, 20)], kept, completions=completions)) == set()


def test_versions_are_counted_and_those_that_a_writer_at_work_needs_stay() -> None:
    two = Retention(BY_VERSIONS, 2)
    groups = [group("g", 10, 20, 30, 40)]
    kept = choose_retained_views(two, [commit(10)], [])
    assert len(deleted(facts(groups, kept, retention=two))) == 2
    at_work = choose_retained_views(two, [commit(10)], [pending(25)])
    assert len(deleted(facts(groups, at_work, retention=two))) == 1


def test_replaced_file_groups_go_with_the_commit_that_replaced_them() -> None:
    gone = group("gone", 10)
    replaced = {gone.id: commit(20)}
    assert (
        deleted(facts([gone], RetainedViews(commit(20), at(20)), replaced_groups=replaced)) == set()
    )
    assert (
        len(deleted(facts([gone], RetainedViews(commit(30), at(30)), replaced_groups=replaced)))
        == 1
    )
    late = {gone.id: commit(20, completed=35)}
    assert deleted(facts([gone], RetainedViews(commit(30), at(30)), replaced_groups=late)) == set()


def test_files_that_savepoints_or_plans_need_stay_whenever_they_came() -> None:
    name = "g_0-1-0_20260101000000010.parquet"
    groups, kept = [group("g", 10, 20, 30)], RetainedViews(commit(40), at(40))
    assert len(deleted(facts(groups, kept))) == 2
    assert len(deleted(facts(groups, kept, protected_files=frozenset({name})))) == 1
    plan = plan_clean(facts(groups, kept, file_counts={PART: 2}))
    assert plan.partitions_to_be_deleted == (PART,)
    left = drop_protected_files(plan, {name})
    assert left.partitions_to_be_deleted == ()
    (infos,) = (left.file_paths_to_be_deleted_per_partition or {}).values()
    assert [file_name(info) for info in infos] == ["g_0-1-0_20260101000000020.parquet"]


def test_a_partition_is_deserted_only_if_no_file_at_all_is_left() -> None:
    gone = group("gone", 10)
    replaced = {gone.id: commit(20)}
    kept = RetainedViews(commit(30), at(30))
    whole = facts([gone], kept, replaced_groups=replaced, file_counts={PART: 1})
    assert plan_clean(whole).partitions_to_be_deleted == (PART,)
    used = facts([gone], kept, replaced_groups=replaced, file_counts={PART: 2})
    assert plan_clean(used).partitions_to_be_deleted == ()


def test_a_clean_goes_by_commits_that_were_too_young_for_the_last_one() -> None:
    commits = [commit(10), commit(20, completed=45), commit(30), commit(40), commit(50)]
    last = LastClean(at(30), horizon=at(30))
    touched = list(find_newly_settled_commits(RetainedViews(commit(50), at(50)), last, commits))
    assert [c.requested_time for c in touched] == [at(20), at(30), at(40)]
