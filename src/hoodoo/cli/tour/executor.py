"""The process that the tour kills in the middle of a compaction; it needs no Spark.

`python -m hoodoo.cli.tour.executor TABLE INSTANT PASS`. It does one file group after the other.
"""

from __future__ import annotations

import sys

from hoodoo.cli.tour.checkpoint import report
from hoodoo.cli.tour.victim import HEARTBEAT

DONE_BEFORE = 2
"""File groups that it has finished when it reports."""


def main(place: str, instant: str, pass_: str) -> None:
    """Run a compaction, and wait in the middle of it for the end."""
    from hoodoo.engine.local import LocalEngine
    from hoodoo.services.compaction import run_compaction
    from hoodoo.table.ref import open_ref

    def stop_in_the_middle(done: int, total: int) -> None:
        if done == DONE_BEFORE:
            report(pass_)

    run_compaction(open_ref(place, HEARTBEAT), instant, LocalEngine(threads=1), stop_in_the_middle)


if __name__ == "__main__":
    main(*sys.argv[1:])
