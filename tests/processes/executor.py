"""A process that executes a plan of a table service: `python executor.py JOURNAL SPEC`.

The spec has: uri, options, service, instant; `pauses`: it stops itself when its items are written,
before it finalizes; `scratch`: it runs the items by tasks of a Spark session, whose files are
there. What came of it is in the journal.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from support.processes import spec_of

import hoodoo
from hoodoo.errors import HoodooError
from hoodoo.services.plans import execute
from hoodoo.write.files.finalize import finalize


def pause_and_finalize(*args: Any, **given: Any) -> Any:
    """Stand still, as a long pause of the machine would have it."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return finalize(*args, **given)


def main() -> None:
    """Execute the plan, and tell what came of it."""
    journal, spec = spec_of(sys.argv[1:])
    if spec.get("pauses"):
        execute.finalize = pause_and_finalize  # type: ignore[attr-defined]  # what it imports
    table = hoodoo.open_table(spec["uri"], spec["options"])
    given = {}
    if spec.get("scratch"):
        from support.sessions import local_session

        given["spark"] = local_session(Path(spec["scratch"]))
    try:
        done = getattr(table, f"run_{spec['service']}")(spec["instant"], **given)
    except HoodooError as error:
        journal.note("refused", error=type(error).__name__, text=str(error))
    else:
        journal.note(
            "done",
            was_done=done.completed_by_other,
            adopted=done.reused_items,
            files=done.stats.files,
        )


if __name__ == "__main__":
    main()
