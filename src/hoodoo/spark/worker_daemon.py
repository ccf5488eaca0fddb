"""The process from which Spark forks its Python workers, with hoodoo imported beforehand.

`spark.python.daemon.module` names this module, and Spark runs it as `python -m`. Imports take most
of the time that a new worker needs; here they happen once, before the first fork. A fork has none
of its parent's threads: import nothing here that needs one (those of numpy and Arrow know forks).
"""

from __future__ import annotations

import gc
from socket import MSG_PEEK, socket

import pandas  # noqa: F401 PySpark asks for it in each worker that gets Arrow batches
import pyarrow.parquet  # noqa: F401 see above; the workers' work begins with it
from pyspark import daemon

from hoodoo.read import log_files
from hoodoo.spark import engine
from hoodoo.spark.session.workers import tune_worker
from hoodoo.spark.write import tasks
from hoodoo.write.index import slice_keys

PRELOADS = (engine, log_files, slice_keys, tasks)
"""What workers run, and what that imports."""

_serve = daemon.worker


def serve_or_end(channel: socket, is_authenticated: bool) -> int:
    """Do Spark's next task, or end quietly once Spark has hung up on a worker that it let go.

    PySpark takes that for a failure, and prints another one when nobody is there to be told.
    """
    if is_authenticated and not channel.recv(1, MSG_PEEK):
        return 1
    code: int = _serve(channel, is_authenticated)  # type: ignore[no-untyped-call]  # has no types
    return code


if __name__ == "__main__":
    daemon.worker = serve_or_end
    tune_worker()
    gc.collect()
    gc.freeze()  # PySpark collects garbage after each task, and would go through all of this
    daemon.manager()  # type: ignore[no-untyped-call]  # has no types
