"""Old names work for one version more: each gives what has the new name, and warns."""

from __future__ import annotations

import sys

import pytest

import hoodoo
from hoodoo.deprecated import CLASSES, FIELDS
from hoodoo.model.table import TableProperties

MISTAKE = "Claened"
OLD_FIELDS = [(owner, old, new) for owner, names in FIELDS.items() for old, new in names.items()]


@pytest.mark.parametrize(("old", "new"), CLASSES.items())
def test_old_class_name_gives_the_class_and_warns(old: str, new: str) -> None:
    present = getattr(hoodoo, new)
    for module in (sys.modules[present.__module__], hoodoo):
        with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now") as warned:
            assert getattr(module, old) is present
        assert warned[0].filename == __file__
        assert old not in vars(module)


@pytest.mark.parametrize(("owner", "old", "new"), OLD_FIELDS)
def test_old_field_gives_the_value_and_warns(owner: str, old: str, new: str) -> None:
    cls = TableProperties if owner == "TableProperties" else getattr(hoodoo, owner)
    result, value = cls.__new__(cls), object()
    object.__setattr__(result, new, value)
    with pytest.warns(DeprecationWarning, match=f"{owner}.{old} is called {new} now") as warned:
        assert getattr(result, old) is value
    assert warned[0].filename == __file__


def test_name_that_never_was_is_refused() -> None:
    for module in (hoodoo, hoodoo.errors, sys.modules[hoodoo.CleanResult.__module__]):
        with pytest.raises(AttributeError, match=f"no attribute '{MISTAKE}'"):
            getattr(module, MISTAKE)


def test_results_and_errors_are_importable_from_hoodoo() -> None:
    for name in hoodoo.__all__:
        assert getattr(hoodoo, name) is not None, name
