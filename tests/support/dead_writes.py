"""Writes on this machine's disk whose writer dies, as others find them some time later."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from hoodoo.api.table import Table
from hoodoo.model import paths
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env, Process, SystemIds
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from support.writer_machines import COMPLETED, PowerCut

EXPIRY_S = 600
"""The expiry of heartbeats by default."""
BEFORE_DECISION = f"{paths.HEAD}$"
AFTER_DECISION = COMPLETED


class NightlyLoad(SystemIds):
    """Ids of a job that tells who it is."""

    def process(self) -> Process:
        return Process("node7", 4711, "nightly load")


def die_over(
    place: Path,
    work: Callable[[Table], object],
    *,
    at: str,
    options: Mapping[str, object] | None = None,
) -> InstantTime:
    """Do something in a process that dies over making, replacing or deleting what matches `at`.

    The instant that it had begun.
    """
    is_dead = False

    def before(verb: str, path: str) -> None:
        nonlocal is_dead
        is_dead = is_dead or bool(verb in ("create", "replace", "delete") and re.search(at, path))
        if is_dead:
            raise PowerCut

    storage = TracedStorage(open_storage(str(place)), before=before)
    # Its lock goes with it at once: nobody needs to wait for the end of a lease.
    lock = {"hoodie.write.lock.provider": "in_process"}
    ref = open_ref(str(place), {**(options or {}), **lock}, Env(storage, ids=NightlyLoad()))
    known = {instant.requested_time for instant in ref.load_timeline()}
    try:
        work(Table(ref, LocalEngine(threads=1)))
    except PowerCut:
        pass
    else:
        raise AssertionError(f"nothing was created like {at}")
    (instant,) = (i for i in open_ref(str(place)).load_timeline() if i.requested_time not in known)
    return instant.requested_time


def upsert_and_die(place: Path, rows: pa.Table, *, at: str = BEFORE_DECISION) -> InstantTime:
    """An upsert that is cut off."""
    return die_over(place, lambda table: table.upsert(rows), at=at)


def make_older(path: Path, seconds: float) -> None:
    """Move the modification time of a file back."""
    modified = path.stat().st_mtime - seconds
    os.utime(path, (modified, modified))


def dead_upsert(place: Path, rows: pa.Table) -> InstantTime:
    """The same, so long ago that nobody takes its writer for alive."""
    instant = upsert_and_die(place, rows)
    make_older(place / paths.heartbeat(instant), EXPIRY_S + 100)
    return instant
