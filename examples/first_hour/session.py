"""The Spark session of every scene."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hoodoo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A driver that lives for seconds is done before much compilation pays."""


def make_session() -> SparkSession:
    """As the README says, with two cores and without a web page."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", QUICK_JVM)
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = hoodoo.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@cache
def share_session() -> tuple[SparkSession, Path]:
    """One session for all scenes of this process, and the folder in which its JVM is."""
    there = Path.cwd() / "session"
    there.mkdir()
    with contextlib.chdir(there):
        return make_session(), there
