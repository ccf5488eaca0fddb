"""A process beside a test: `python other_process.py JOURNAL SPEC`.

The spec has uri and options, and one of: `target`, the commit to restore; `keys`, to be upserted by
a process that is killed when it has begun to write.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pyarrow as pa
from support.processes import spec_of

from hoodoo.api.table import Table
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref


def kill_at_first_marker(verb: str, path: str) -> None:
    if verb == "create" and "/.temp/" in path:
        os.kill(os.getpid(), signal.SIGKILL)


def main(spec: dict[str, Any]) -> None:
    """Restore, or write and die."""
    storage = open_storage(spec["uri"])
    if "keys" in spec:
        storage = TracedStorage(storage, before=kill_at_first_marker)
    table = Table(open_ref(spec["uri"], spec["options"], Env(storage)), LocalEngine(threads=1))
    if "keys" in spec:
        table.upsert(pa.table({"id": spec["keys"], "v": [0] * len(spec["keys"])}))
    else:
        table.restore(spec["target"])


if __name__ == "__main__":
    main(spec_of(sys.argv[1:])[1])
