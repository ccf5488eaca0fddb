"""The settings of a Spark session that make hoodoo's work in Python workers cheap."""

from __future__ import annotations

import os
import sys

import pyspark
from pyspark.sql import SparkSession

_WORKER_PYTHON = "spark.pyspark.python"
_SETTINGS = {
    # Workers are forked from a process that has imported what they need.
    "spark.python.daemon.module": "hoodoo.spark.worker_daemon",
    # Rows from pandas come by way of Arrow, which also keeps nulls of texts as nulls.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Rows go from the JVM to workers without the detour by TCP.
_SETTINGS_FROM_4_1 = {"spark.python.unix.domain.socket.enabled": "true"}


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """The builder with hoodoo's settings, where it has none of its own."""
    own = dict(builder._options)
    os.environ.setdefault("PYSPARK_PYTHON", str(own.get(_WORKER_PYTHON, sys.executable)))
    for key, value in recommended_settings(pyspark.__version__).items():
        if key not in own:
            builder = builder.config(key, value)
    return builder


def recommended_settings(version: str) -> dict[str, str]:
    """The settings for a version of Spark."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return {**_SETTINGS, **(_SETTINGS_FROM_4_1 if (major, minor) >= (4, 1) else {})}
