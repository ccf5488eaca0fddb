"""docs/features.md: each cell of ours is proved by a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "features.md"
HEAD = "| | hoodoo | deltalake | delta-spark | Apache Hudi | PyIceberg |"
PROOF = re.compile(r'\[[^\]]+\]\((\S+) "(\w+)"\)')


def features() -> dict[str, list[str]]:
    """The cells of each feature, that of hoodoo first."""
    found: dict[str, list[str]] = {}
    for table in PAGE.read_text().split(HEAD)[1:]:
        lines = table.strip().split("\n\n")[0].splitlines()[1:]
        for line in lines:
            name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            assert name not in found, f"there are two lines for {name}"
            found[name] = cells
    return found


FEATURES = features()


@cache
def functions_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def unproved(cell: str) -> str | None:
    """Why a cell of ours does not stand; None if it does."""
    proofs = PROOF.findall(cell)
    if not proofs:
        return None if re.match(r"no\b", cell) else "has no link to a test"
    for path, name in proofs:
        file = (PAGE.parent / path).resolve()
        if not file.is_file():
            return f"{path} is not there"
        if not name.startswith("test_") or name not in functions_in(file):
            return f"{path} has no {name}"
    return None


def test_the_page_has_all_columns() -> None:
    assert len(FEATURES) > 50
    assert {len(cells) for cells in FEATURES.values()} == {5}
    assert all(cell for cells in FEATURES.values() for cell in cells)


@pytest.mark.parametrize("feature", FEATURES)
def test_what_hoodoo_has_is_proved_by_a_test(feature: str) -> None:
    assert unproved(FEATURES[feature][0]) is None


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("yes", "no link"),
        ('[yes](../tests/test_gone.py "test_it")', "is not there"),
        ('[yes](../tests/test_features.py "test_it")', "has no test_it"),
        ('[yes](../tests/test_features.py "unproved")', "has no unproved"),
    ],
)
def test_an_unproved_cell_is_found(cell: str, reason: str) -> None:
    assert reason in str(unproved(cell))
