"""A process that does some writes and kills or stops itself at one of its storage operations.

`python victim.py JOURNAL SPEC`; the spec has: uri, options, writer, writes (number, kind and block
of each), and either `die_at`, the number of the operation ahead of which it is killed, or
`stop_at`, verb and pattern of the path of the operation ahead of which it stops once. When it is
through it notes how many operations it did. With `victims`, it forks one process after the other,
each with what the spec says and what its own part in `victims` says.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.processes import Journal, be_mortal, spec_of
from writer import write

from hoodoo.api import Table
from hoodoo.engine.local import LocalEngine
from hoodoo.env import Env
from hoodoo.errors import HoodooError
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.write import operations as _warm  # noqa: F401 - imported once, not in each fork


class Fate:
    """What is to happen to this process, and when."""

    def __init__(self, journal: Journal, spec: dict[str, Any]) -> None:
        self._journal = journal
        self._die_at: int | None = spec.get("die_at")
        self._stop_at: list[str] | None = spec.get("stop_at")
        self.operations = 0

    def before(self, verb: str, path: str) -> None:
        """Called ahead of each storage operation."""
        self.operations += 1
        if self.operations == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._stop_at and verb == self._stop_at[0] and re.search(self._stop_at[1], path):
            self._stop_at = None
            self._journal.note("stopping", verb=verb, path=path)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._journal.note("resumed")


def work(journal: Journal, spec: dict[str, Any]) -> None:
    """Do the writes, and note how each ends."""
    fate = Fate(journal, spec)
    env = Env.of(spec["uri"])
    env = replace(env, storage=TracedStorage(env.storage, before=fate.before))
    table = Table(open_ref(spec["uri"], spec["options"], env), LocalEngine(threads=1))
    for number, kind, block in spec["writes"]:
        facts = {"number": number, "kind": kind, "block": block}
        journal.note("intent", **facts)
        try:
            instant = write(table, number, kind, (spec["writer"], block))
        except HoodooError as error:
            logging.exception("write %d", number)
            journal.note("failed", error=type(error).__name__, reason=str(error), **facts)
        else:
            journal.note("ack", instant=instant, **facts)
    journal.note("done", operations=fate.operations)


def work_in_fork(journal: Journal, spec: dict[str, Any]) -> int:
    """Do the same in a process that need not be started anew; how it ended."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        be_mortal(spec["deadline_s"])
        work(journal, spec)
        code = 0
    except Exception:
        logging.exception("victim")
    finally:
        os._exit(code)


def main() -> None:
    """One victim, or one after the other."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    if "victims" not in spec:
        work(journal, spec)
        return
    for victim in spec["victims"]:
        code = work_in_fork(Journal(Path(victim["journal"])), {**spec, **victim})
        journal.note("ended", code=code, **victim)


if __name__ == "__main__":
    main()
