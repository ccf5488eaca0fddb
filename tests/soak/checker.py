"""A process that reads the table now and then while others write, and notes what is wrong.

`python checker.py JOURNAL SPEC`; the spec has: uri, options, folder (of the journals), every_s, and
until (when to end, as wall time).
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from support.processes import Journal, spec_of

import hoodoo
from soak.verdict import check_meanwhile
from soak.writes import load_writes


def check(table: hoodoo.Table, folder: Path, journal: Journal) -> None:
    """One read, between two looks at the journals."""
    before = load_writes(folder)
    began = time.monotonic()
    rows = table.to_arrow(columns=["id", "v"]).to_pylist()
    took_s = round(time.monotonic() - began, 2)
    findings = check_meanwhile(rows, before, load_writes(folder))
    journal.note("checked", rows=len(rows), took_s=took_s, found=findings.as_lists())


def main() -> None:
    """Read until the end; the pause between two reads is how often they are asked for."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    table, folder = hoodoo.open_table(spec["uri"], spec["options"]), Path(spec["folder"])
    while (left_s := spec["until"] - time.time()) > 0:
        time.sleep(min(spec["every_s"], left_s))
        check(table, folder, journal)


if __name__ == "__main__":
    main()
