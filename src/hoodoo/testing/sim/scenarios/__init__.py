"""Scenarios by name: every module of this package lists its own in `SCENARIOS`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from hoodoo.testing.sim.scenario import Scenario


def scenarios() -> Mapping[str, type[Scenario]]:
    """All of them."""
    found: dict[str, type[Scenario]] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for scenario in import_module(module.name).SCENARIOS:
            if found.setdefault(scenario.name, scenario) is not scenario:
                raise ValueError(f"two scenarios are called {scenario.name}")
    return found
