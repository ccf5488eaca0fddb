"""Items are packed into tasks evenly, with enough tasks to keep all cores busy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hoodoo.spark.placement import FULL_TASK_BYTES, pack

MB = 1 << 20


@pytest.mark.parametrize("count", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("size", [0, 1, 5 * MB, 100 * MB])
def test_each_item_is_in_one_task(count: int, size: int) -> None:
    tasks = pack([size + n for n in range(count)], at_least=4)
    assert sorted(position for task in tasks for position in task) == list(range(count))
    assert all(tasks)


@pytest.mark.parametrize(
    ("sizes", "at_least", "count"),
    [
        ([MB] * 16, 2, 2),
        ([MB] * 16, 8, 8),
        ([MB] * 3, 8, 3),
        ([10 * MB] * 16, 2, 5),
        ([100 * MB] * 16, 2, 16),
        ([0] * 16, 2, 2),
    ],
)
def test_tasks_are_as_many_as_cores_or_work(sizes: list[int], at_least: int, count: int) -> None:
    assert len(pack(sizes, at_least=at_least)) == count


def test_tasks_are_no_more_than_allowed() -> None:
    assert len(pack([FULL_TASK_BYTES] * 100, at_least=2, most=10)) == 10


def test_work_is_even_and_large_items_come_first() -> None:
    sizes = [1 * MB, 8 * MB, 1 * MB, 2 * MB, 4 * MB, 2 * MB]
    tasks = pack(sizes, at_least=2)
    assert _loads(sizes, tasks) == [9 * MB, 9 * MB]
    assert tasks[0][0] == 1


def test_items_of_unknown_size_are_spread_by_number() -> None:
    assert sorted(len(task) for task in pack([0] * 9, at_least=3)) == [3, 3, 3]


def _loads(sizes: Sequence[int], tasks: Sequence[Sequence[int]]) -> list[int]:
    return [sum(sizes[position] for position in task) for task in tasks]
