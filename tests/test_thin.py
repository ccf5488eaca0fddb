"""Thin tests: what CI leaves to the night, and what it keeps."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from support.pairwise_in_ci import is_in_ci


@pytest.mark.thin(2)
@pytest.mark.parametrize("third", [0, 1, 2, 3])
@pytest.mark.parametrize("second", [0, 1, 2])
@pytest.mark.parametrize("first", [0, 1])
def test_combinations_of_odd_sum_are_nightly(
    request: pytest.FixtureRequest, first: int, second: int, third: int
) -> None:
    is_nightly = request.node.get_closest_marker("nightly") is not None
    assert is_nightly == bool((first + second + third) % 2)


def test_every_pair_of_values_of_three_parameters_is_in_ci() -> None:
    lists = [range(2), range(5), range(4)]
    kept = [choice for choice in product(*lists) if is_in_ci(choice, 2)]
    for one, other in combinations(range(3), 2):
        pairs = {(choice[one], choice[other]) for choice in kept}
        assert pairs == set(product(lists[one], lists[other]))
