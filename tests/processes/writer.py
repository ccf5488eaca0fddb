"""A process that writes block after block, and notes each write before it and after it.

`python writer.py JOURNAL SPEC`; the spec has: uri, options, writer, commits (how many to get
acknowledged), first (the number of the first write), living (the blocks that can be updated).
"""

from __future__ import annotations

import logging
import sys

from processes.blocks import Block, keys_of, rows_of
from support.processes import Journal, spec_of

import hoodoo
from hoodoo.errors import CommitUnknown, HoodooError

_KINDS = ("insert", "upsert", "insert", "delete", "upsert")


def write_until_acknowledged(
    table: hoodoo.Table, journal: Journal, number: int, kind: str, block: Block
) -> bool:
    """Do one write, again if it surely failed; False if its outcome is not known."""
    facts = {"number": number, "kind": kind, "block": block[1]}
    while True:
        journal.note("intent", **facts)
        try:
            done = write(table, number, kind, block)
        except CommitUnknown as error:
            journal.note("unknown", error=str(error), **facts)
            return False
        except HoodooError as error:
            logging.exception("write %d", number)
            journal.note("failed", error=type(error).__name__, **facts)
        else:
            journal.note("ack", instant=done, **facts)
            return True


def write(table: hoodoo.Table, number: int, kind: str, block: Block) -> str:
    """One write about one block; its instant."""
    if kind == "insert":
        return table.insert(rows_of(block, number)).instant
    if kind == "upsert":
        return table.upsert(rows_of(block, number)).instant
    return table.delete(keys_of(block)).instant


def main() -> None:
    """Write until enough is acknowledged."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    table = hoodoo.open_table(spec["uri"], spec["options"])
    number, living, left = spec["first"], list(spec["living"]), spec["commits"]
    while left:
        kind = _KINDS[number % len(_KINDS)] if living else "insert"
        block = number if kind == "insert" else living[number % len(living)]
        is_known = write_until_acknowledged(table, journal, number, kind, (spec["writer"], block))
        if kind == "delete":
            living.remove(block)
        elif kind == "insert" and is_known:
            living.append(block)
        left -= is_known
        number += 1


if __name__ == "__main__":
    main()
