"""Spark sessions for tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import hoodoo
from hoodoo_testing.servers.jvm import LIGHT


def local_session(place: Path, master: str = "local[2]", **settings: str) -> SparkSession:
    """A small session; workers run this Python, and import what the tests import."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    named = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": " ".join(LIGHT),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.local.dir": str(place / "local"),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent.parent),
        **settings,
    }
    builder = SparkSession.builder.master(master).appName("hoodoo tests")
    for key, value in named.items():
        builder = builder.config(key, value)
    return hoodoo.configure(builder).getOrCreate()
