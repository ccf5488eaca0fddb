"""A process that reads the changes of the table, window after window, and notes the witnesses.

`python follower.py JOURNAL SPEC`; the spec has: uri, options, every_s, and finish (a file that
appears when all is written: then it reads once more and ends).

A window ends at the latest completion time that the timeline shows. Nothing may ever complete
with an earlier time: it would be in no window. So every commit is in exactly one.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from support.processes import Journal, spec_of

import hoodoo
from hoodoo.table.ref import open_ref
from soak.keys import is_witness

_BEGINNING = "20000101000000000"


class Follower:
    """Where the last window ended, and what reads the next one."""

    def __init__(self, uri: str, options: dict[str, object], journal: Journal) -> None:
        self._ref = open_ref(uri, options)
        self._table = hoodoo.Table(self._ref)
        self._journal = journal
        self._since = _BEGINNING

    def read_window(self) -> None:
        """Read what was completed since the last window, if anything was."""
        until = max(
            (i.completion_or_requested_time for i in self._ref.load_timeline().commits),
            default=self._since,
        )
        if until == self._since:
            return
        rows = self._table.changes(since=self._since, until=until, columns=["id"])
        witnesses = [i for i in rows.column("id").to_pylist() if is_witness(i)]
        self._journal.note("window", since=self._since, until=until, witnesses=witnesses)
        self._since = until


def main() -> None:
    """Follow the table until all is written; the pause is how often a window is read."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    follower, finish = Follower(spec["uri"], spec["options"], journal), Path(spec["finish"])
    is_last = False
    while not is_last:
        is_last = finish.exists()
        follower.read_window()
        if not is_last:
            time.sleep(spec["every_s"])


if __name__ == "__main__":
    main()
