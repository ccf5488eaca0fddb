"""Spark's daemon that forks Python workers, with `faults` in them (`spark.python.daemon.module`).

What all workers import is imported here, before they are forked: they start in no time.
"""

from __future__ import annotations

import pandas as _pandas  # noqa: F401 - pyspark imports it in each worker
import pyarrow.parquet as _parquet  # noqa: F401 - so do the handles of a write
from pyspark.daemon import manager

from support.faults import arm

if __name__ == "__main__":
    arm()
    manager()
