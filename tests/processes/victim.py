"""A process that does some writes and kills or stops itself at one of its storage operations.

`python victim.py JOURNAL SPEC`; the spec has: uri, options, writer, writes (number, kind and block
of each), and what is to happen to it:
- `die_at`: the number of the operation ahead of which it is killed;
- `ends`: moments at which it is killed; a moment is a verb, or "after create", and a pattern of
  the path;
- `stops`: moments at which it stops itself, once each.
When it is through, it notes how many operations it did. With `victims`, it forks one process after
the other, each with what the spec says and what its own part of `victims` says.
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

from processes.writer import write
from support.processes import Journal, be_mortal, spec_of

from hoodoo.api.table import Table
from hoodoo.errors import HoodooError
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.storage import ObjectInfo, Storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.write import operations as _warm  # noqa: F401 - imported once, not in each fork


class Fate(TracedStorage):
    """The store, up to the operation that this process is to be killed or stopped at."""

    def __init__(self, inner: Storage, journal: Journal, spec: dict[str, Any]) -> None:
        super().__init__(inner, before=self._begin)
        self._journal = journal
        self._die_at: int = spec.get("die_at", 0)
        self._stops: list[list[str]] = spec.get("stops", [])
        self._ends: list[list[str]] = spec.get("ends", [])
        self.begun = 0

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        made = super().create(path, data, within_s=within_s)
        self._meet("after create", path)
        return made

    def _begin(self, verb: str, path: str) -> None:
        self.begun += 1
        if self.begun == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._meet(verb, path)

    def _meet(self, moment: str, path: str) -> None:
        if _matches(self._ends, moment, path):
            os.kill(os.getpid(), signal.SIGKILL)
        if (stop := _matches(self._stops, moment, path)) is not None:
            self._stops.remove(stop)
            self._journal.note("stopping", moment=moment, path=path)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._journal.note("resumed")


def _matches(moments: list[list[str]], moment: str, path: str) -> list[str] | None:
    return next((m for m in moments if m[0] == moment and re.search(m[1], path)), None)


def work(journal: Journal, spec: dict[str, Any]) -> None:
    """Do the writes, and note how each ends."""
    env = Env.of(spec["uri"])
    fate = Fate(env.storage, journal, spec)
    ref = open_ref(spec["uri"], spec["options"], replace(env, storage=fate))
    table = Table(ref, LocalEngine(threads=1))
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
    journal.note("done", operations=fate.begun)


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
