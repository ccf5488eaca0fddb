"""Running a write: the dead are rolled back ahead of it, and conflicts retried if asked."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hoodoo.config.concurrency import CONFLICT_RETRIES
from hoodoo.errors import WriteConflict
from hoodoo.recovery.recover import before_write
from hoodoo.table.ref import TableRef
from hoodoo.write.commit import CommitResult

log = logging.getLogger("hoodoo.write")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0


def run(ref: TableRef, write: Callable[[], CommitResult]) -> CommitResult:
    """Do a write; each retry plans anew on the table as it is then."""
    before_write(ref)
    retries = ref.config.get(CONFLICT_RETRIES)
    for retry in range(retries):
        try:
            return write()
        except WriteConflict as conflict:
            pause_s = min(_FIRST_PAUSE_S * 2**retry, _LONGEST_PAUSE_S)
            log.info("conflict retry=%d of=%d reason=%s", retry + 1, retries, conflict)
        # Those who met must not meet again.
        ref.env.clock.sleep(pause_s * (0.5 + ref.env.ids.jitter()))
    return write()
