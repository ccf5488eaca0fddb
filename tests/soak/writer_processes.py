"""The writers of a soak: killed and replaced, stopped and continued."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from support.processes import Child, Children

from hoodoo.api.table import Table
from hoodoo.errors import HoodooError

WRITERS = 4
STOP_S = 20.0
_AIM_S = 0.5
_KILLS_AIMED = 0.08  # few: nobody can commit until the lease of the dead has run out
_STOPS_AIMED = 0.3
_HELD_S = 0.05  # how long the lock is held, about: any moment of that
_SCRIPT = Path(__file__).with_name("writer.py")


class Crew:
    """For each writer, the process that is at it now."""

    def __init__(
        self,
        children: Children,
        spec: Mapping[str, object],
        table: Table,
        chance: random.Random,
        *,
        deadline_s: int,
    ) -> None:
        """`table` is used to see who holds the lock."""
        self._children = children
        self._spec = spec
        self._table = table
        self._chance = chance
        self._deadline_s = deadline_s
        self._first = dict.fromkeys(range(WRITERS), 0)
        self._stopped: dict[int, float] = {}
        self._started: dict[int, float] = {}
        self.at_work: dict[int, Child] = {}
        self.kills = 0
        self.stops = 0
        for writer in range(WRITERS):
            self._start(writer)

    def kill_one(self) -> None:
        """Kill a writer that has begun to write, and replace it."""
        victim = self._choose(_KILLS_AIMED)
        if victim is None:
            return
        self.at_work[victim].kill()
        self.kills += 1
        self._replace(victim)

    def stop_one(self) -> bool:
        """Stop a writer; `resume_due` lets it go on. False if none is writing now."""
        victim = self._choose(_STOPS_AIMED)
        if victim is None:
            return False
        self.at_work[victim].stop()
        self._stopped[victim] = time.monotonic() + STOP_S
        self.stops += 1
        return True

    def resume_due(self, *, everyone: bool = False) -> None:
        """Let those go on that were stopped long enough."""
        for writer, until in list(self._stopped.items()):
            if everyone or time.monotonic() >= until:
                del self._stopped[writer]
                self.at_work[writer].resume()

    def replace_failed(self) -> list[str]:
        """Replace writers that failed by themselves, and tell what they told."""
        told = []
        for writer, child in list(self.at_work.items()):
            if child.code not in (None, 0):
                told.append(child.told())
                self._replace(writer)
        return told

    def end(self, *, within_s: float) -> list[str]:
        """Let all finish the write that they are at; tell of those that do not."""
        self.resume_due(everyone=True)
        deadline, told = time.monotonic() + within_s, []
        for child in self.at_work.values():
            try:
                code = child.end(within_s=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                told.append(child.told())
                child.kill()
        return told

    def _choose(self, aimed: float) -> int | None:
        """A writer in the middle of a write: this share of the time one that holds the lock.

        Else it is one that does not, as far as one can see: a moment later it may.
        """
        free = [w for w in self.at_work if w not in self._stopped and self._is_writing(w)]
        if self._chance.random() < aimed:
            deadline = time.monotonic() + _AIM_S
            while time.monotonic() < deadline:
                holder = self._lock_holder()
                for writer in free:
                    if self.at_work[writer].pid == holder:
                        time.sleep(self._chance.uniform(0, _HELD_S))
                        return writer
        holder = self._lock_holder()
        others = [writer for writer in free if self.at_work[writer].pid != holder]
        others = [writer for writer in others if writer != self._heir(holder)]
        return self._chance.choice(others) if others else None

    def _heir(self, holder: int | None) -> int | None:
        """The writer that is spared while a process holds the lock that is dead, or stopped.

        A lease is taken over by who has watched it for seconds. With a kill each second nobody
        would live long enough, and nothing be written.
        """
        alive = {w: child for w, child in self.at_work.items() if w not in self._stopped}
        if holder is None or holder in {child.pid for child in alive.values()}:
            return None
        return min(alive, key=lambda w: self._started[w])

    def _is_writing(self, writer: int) -> bool:
        return self.at_work[writer].journal.words()[-1:] == ["intent"]

    def _lock_holder(self) -> int | None:
        try:
            return self._table.lock_status().pid
        except HoodooError:  # the lock changes hands while it is looked at
            return None

    def _replace(self, writer: int) -> None:
        entries = self.at_work[writer].journal.entries()
        numbers = [entry["number"] for entry in entries if entry["word"] == "intent"]
        self._first[writer] = max([*(n + 1 for n in numbers), self._first[writer]])
        self._start(writer)

    def _start(self, writer: int) -> None:
        self._started[writer] = time.monotonic()
        spec = {**self._spec, "writer": writer, "first": self._first[writer]}
        self.at_work[writer] = self._children.start(_SCRIPT, spec, deadline_s=self._deadline_s)
