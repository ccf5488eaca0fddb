"""A process that upserts keys that others upsert too, and notes each write before and after it.

`python writer.py JOURNAL SPEC`; the spec has: uri, options (several sets, of which each write takes
one), writer, first (the number of its first write), seed, began (when the soak began) and until
(when to end), both as wall time.
"""

from __future__ import annotations

import logging
import random
import sys
import time

from support.processes import Journal, spec_of

import hoodoo
from hoodoo.errors import CommitUnknown, HoodooError
from soak.keys import draw_keys, frontier_at, rows_of


def write(
    table: hoodoo.Table, journal: Journal, writer: int, number: int, sort: str, keys: list[int]
) -> None:
    """One write. Whatever is not `CommitUnknown` must be a refusal: nothing of it is visible."""
    journal.note("intent", writer=writer, number=number, sort=sort, keys=keys, at=time.time())
    try:
        done = table.upsert(rows_of(writer, number, keys))
    except CommitUnknown as error:
        logging.exception("write %d", number)
        journal.note("unknown", error=type(error).__name__, reason=str(error))
    except HoodooError as error:
        logging.info("write %d: %s: %s", number, type(error).__name__, error)
        journal.note("refused", error=type(error).__name__, reason=str(error))
    else:
        journal.note("ack", instant=done.instant, completed=done.completion_time)


def main() -> None:
    """Write until the end."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    tables = [hoodoo.open_table(spec["uri"], options) for options in spec["options"]]
    number = spec["first"]
    chance = random.Random(f"{spec['seed']} {spec['writer']} {number}")
    while time.time() < spec["until"]:
        sort, keys = draw_keys(chance, frontier_at(time.time() - spec["began"]))
        write(chance.choice(tables), journal, spec["writer"], number, sort, keys)
        number += 1


if __name__ == "__main__":
    main()
