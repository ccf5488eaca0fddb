"""A process that plans, builds, drops and rebuilds indexes, until the end.

`python indexer.py JOURNAL SPEC`; the spec has: uri, options, seed, until (when to end, wall time).
It is killed and stopped like writers are; the next one finds what it left.
"""

from __future__ import annotations

import logging
import random
import sys
import time

from support.processes import Journal, spec_of

import hoodoo
from hoodoo.errors import HoodooError

INDEXES = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


def change_indexes(table: hoodoo.Table, chance: random.Random) -> str:
    """One change; what it was."""
    some = chance.sample(INDEXES[1:], chance.randint(1, 4))
    match chance.choice(["create", "create", "rebuild", "schedule", "run", "drop", "drop all"]):
        case "create":
            return f"create {table.create_index(some)}"
        case "rebuild":
            return f"rebuild {table.create_index(some, rebuild=True)}"
        case "schedule":
            return f"schedule {table.schedule_index(some)}"
        case "run":
            return f"run {table.run_index()}"
        case "drop":
            there = [each.name for each in table.inspect.indexes() if each.name != "files"]
            return f"drop {table.drop_index(chance.choice(there)) if there else None}"
        case _:
            is_rare = chance.random() < 0.2 and table.inspect.indexes()
            return f"drop all {table.drop_index('files') if is_rare else None}"


def work(table: hoodoo.Table, journal: Journal, chance: random.Random) -> None:
    """One change, noted before and after; another indexer's dead plan may be in the way."""
    journal.note("intent", at=time.time())
    try:
        done = change_indexes(table, chance)
    except HoodooError as error:
        logging.info("%s: %s", type(error).__name__, error)
        journal.note("refused", error=type(error).__name__, reason=str(error))
    else:
        journal.note("ack", done=done)


def main() -> None:
    """Change indexes until the end."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    table = hoodoo.open_table(spec["uri"], spec["options"])
    chance = random.Random(spec["seed"])
    while time.time() < spec["until"]:
        work(table, journal, chance)


if __name__ == "__main__":
    main()
