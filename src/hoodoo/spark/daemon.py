"""The process from which Spark forks its Python workers, with hoodoo imported beforehand.

`spark.python.daemon.module` names this module, and Spark runs it as `python -m`. Imports take most
of the time that a new worker needs; here they happen once, before the first fork. A fork has none
of its parent's threads: import nothing here that needs one (those of numpy and Arrow know forks).
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401 PySpark asks for it in each worker that gets Arrow batches
import pyarrow.parquet  # noqa: F401 see above; the workers' work begins with it
from pyspark.daemon import manager

from hoodoo.index import slice_keys
from hoodoo.spark import engine, tasks
from hoodoo.spark.worker import settle
from hoodoo.table import merged

IMPORTED = (engine, merged, slice_keys, tasks)
"""What workers run, and what that imports."""

if __name__ == "__main__":
    settle()
    gc.collect()
    gc.freeze()  # PySpark collects garbage after each task, and would go through all of this
    manager()  # type: ignore[no-untyped-call]  # has no types
