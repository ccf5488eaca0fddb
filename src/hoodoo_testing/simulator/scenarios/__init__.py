"""All scenarios of the simulator; every module lists its own in SCENARIOS.

    `toys`             counters behind locks, to test the simulator itself
    `commits`          writers that crash, pause and are recovered; batches sent twice
    `appends`          writes begun, written and committed in separate processes
    `overwrites`       overwrites, dropped partitions, buckets, and another engine beside hoodoo
    `early_conflicts`  early conflict detection, by every strategy
    `repeated_tasks`   tasks that run twice or outlive their write
    `plans`            plans of compactions and incremental reads beside writers
    `services`         plans executed, lost, taken over, cancelled
    `upkeep`           clean, archive and restore, alone and beside writers
    `indexing`         indexes built while others write
    `metadata_table`   the metadata table beside writers and crashes
    `upgrade`          upgrades that are cut off or watched by readers

In: actors and checks of the simulator. Out: scenarios by name (`scenarios`, below).
Not here: choosing seeds and faults (hoodoo_testing/simulator/search).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from hoodoo_testing.simulator.scenario import Scenario


def scenarios() -> Mapping[str, type[Scenario]]:
    """All of them."""
    scenario_by_name: dict[str, type[Scenario]] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for scenario in import_module(module.name).SCENARIOS:
            if scenario_by_name.setdefault(scenario.name, scenario) is not scenario:
                raise ValueError(f"two scenarios are called {scenario.name}")
    return scenario_by_name
