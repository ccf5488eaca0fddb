"""Spark sessions that are alike on every side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

CODEC = "zstd"
COMMON = {
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # 200, the default, is for clusters: on two cores it would only slow the peers down.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": CODEC,
    # pyarrow's level; Java's default is 3, which takes longer for files that are hardly smaller.
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
}


def start(
    scratch: Path,
    settings: Mapping[str, str] | None = None,
    configure: Callable[[SparkSession.Builder], SparkSession.Builder] | None = None,
) -> SparkSession:
    """The session of this process, on two cores; what it leaves behind is in `scratch`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    own = {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for key, value in {**COMMON, **own, **(settings or {})}.items():
        builder = builder.config(key, value)
    if configure is not None:
        builder = configure(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
