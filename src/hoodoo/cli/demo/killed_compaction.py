"""The process that the tour kills in the middle of a compaction; it needs no Spark.

`python -m hoodoo.cli.demo.killed_compaction TABLE INSTANT PASS`. It does one file group after the
other.
"""

from __future__ import annotations

import sys

from hoodoo.cli.demo.checkpoint import report
from hoodoo.cli.demo.killed_writer import HEARTBEAT

DONE_BEFORE = 2
"""File groups that it has finished when it reports."""


def main(place: str, instant: str, pass_: str) -> None:
    """Run a compaction, and wait in the middle of it for the end."""
    from hoodoo.runtime.engine import LocalEngine
    from hoodoo.services.compaction.compaction import run_compaction
    from hoodoo.table.ref import open_ref

    def stop_in_the_middle(count: int, total: int) -> None:
        if count == DONE_BEFORE:
            report(pass_)

    run_compaction(open_ref(place, HEARTBEAT), instant, LocalEngine(threads=1), stop_in_the_middle)


if __name__ == "__main__":
    main(*sys.argv[1:])
