"""File slicing: worked cases of the format, and a property against a slow, literal model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hoodoo.model.files import (
    DataFile,
    FileGroup,
    Visibility,
    build_file_groups,
    depends_on_history,
    parse_data_file,
)
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath

ID = "3e93c8a9-fda0-4e8a-91dc-b4ade7dab76d-0"


def t(number: int) -> InstantTime:
    return InstantTime(f"202601010000{number:05d}")


def base(number: int, file_id: str = ID) -> DataFile:
    file = parse_data_file(PartitionPath("p"), f"{file_id}_1-2-3_{t(number)}.parquet", 10)
    assert file is not None
    return file


def log(number: int, version: int = 1, file_id: str = ID) -> DataFile:
    name = f".{file_id}_{t(number)}.log.{version}_0-1-2"
    file = parse_data_file(PartitionPath("p"), name, 5)
    assert file is not None
    return file


def seen(*pairs: tuple[int, int], archived_before: int | None = None) -> Visibility:
    start = t(archived_before) if archived_before is not None else None
    return Visibility({t(r): t(c) for r, c in pairs}, archived_before=start)


def shape(group: FileGroup) -> list[tuple[str, bool, list[str]]]:
    return [
        (s.base_time, s.base is not None, [file.name.instant_time for file in s.logs])
        for s in group.slices
    ]


def test_a_log_that_completed_after_a_compaction_was_requested_goes_on_top_of_it() -> None:
    # delta 20 was requested before compaction 30, and completed after 30 was requested
    (group,) = build_file_groups(
        [base(10), log(20), base(30)], seen((10, 11), (20, 35), (30, 40)), by_completion=True
    )
    assert shape(group) == [(t(10), True, []), (t(30), True, [t(20)])]


def test_a_log_that_completed_before_belongs_to_the_compacted_slice() -> None:
    (group,) = build_file_groups(
        [base(10), log(20), base(30)], seen((10, 11), (20, 25), (30, 40)), by_completion=True
    )
    assert shape(group) == [(t(10), True, [t(20)]), (t(30), True, [])]


def test_logs_of_a_pending_compaction_are_read_on_the_base_before_it() -> None:
    (group,) = build_file_groups(
        [base(10), log(20), base(30), log(40)],
        seen((10, 11), (20, 21), (40, 41)),
        by_completion=True,
    )
    assert shape(group) == [(t(10), True, [t(20), t(40)])]


def test_uncommitted_files_are_invisible() -> None:
    assert build_file_groups([base(10), log(20)], seen(), by_completion=True) == []


def test_a_group_of_logs_only() -> None:
    (group,) = build_file_groups(
        [log(20, 2), log(20, 1), log(30)], seen((20, 21), (30, 31)), by_completion=True
    )
    assert shape(group) == [(t(20), False, [t(20), t(20), t(30)])]
    assert [file.name.version for file in group.latest.logs] == [1, 2, 1]


def test_archived_instants_count_as_committed() -> None:
    (group,) = build_file_groups([base(10), base(50)], seen(archived_before=40), by_completion=True)
    assert shape(group) == [(t(10), True, [])]


def test_completions_of_archived_logs_matter_only_below_a_base_file() -> None:
    view = seen((50, 51), archived_before=40)
    assert depends_on_history([base(10), log(20), base(30)], view)
    assert not depends_on_history([base(10), log(20)], view)
    assert not depends_on_history([base(10), log(45), base(50)], view)


def test_version_6_logs_carry_the_instant_of_their_base_file() -> None:
    (group,) = build_file_groups(
        [base(10), log(10), base(30), log(30), log(30, 2)],
        seen((10, 10), (30, 30)),
        by_completion=False,
    )
    assert shape(group) == [(t(10), True, [t(10)]), (t(30), True, [t(30), t(30)])]


def test_groups_are_told_apart_by_partition_and_id_and_cdc_files_are_left_out() -> None:
    other = "11111111-fda0-4e8a-91dc-b4ade7dab76d-0"
    cdc = parse_data_file(PartitionPath("p"), f".{ID}_{t(10)}.log.1_0-1-2.cdc", 5)
    assert cdc is not None
    groups = build_file_groups([base(10), base(10, other), cdc], seen((10, 11)), by_completion=True)
    assert sorted(group.id.file_id for group in groups) == [other, ID]
    assert all(not group.latest.logs for group in groups)


@given(
    bases=st.sets(st.integers(0, 20), max_size=4),
    logs=st.sets(st.integers(0, 20), max_size=6),
    completions=st.dictionaries(st.integers(0, 20), st.integers(1, 10), max_size=12),
)
def test_each_visible_log_is_in_exactly_the_slice_that_the_rule_names(
    bases: set[int], logs: set[int], completions: dict[int, int]
) -> None:
    ended = {r: r + more for r, more in completions.items()}
    files = [base(r) for r in bases] + [log(r) for r in logs]
    groups = build_file_groups(files, seen(*ended.items()), by_completion=True)
    visible_bases = sorted(r for r in bases if r in ended)
    expected: dict[int | None, list[int]] = {r: [] for r in visible_bases}
    for r in sorted(logs):
        if r in ended:
            below = [b for b in visible_bases if b <= ended[r]]
            expected.setdefault(below[-1] if below else None, []).append(r)
    found: dict[int | None, list[int]] = {}
    for group in groups:
        for slice_ in group.slices:
            key = int(slice_.base_time[-5:]) if slice_.base else None
            found[key] = [int(file.name.instant_time[-5:]) for file in slice_.logs]
    assert found == expected
