"""Apache Hudi on Spark behind stdin and stdout: run by the peer's own Python, never imported.

Each line in is a JSON request `{"command": ..., ...}`, each line out its JSON answer,
`{"ok": ...}` or `{"error": ...}`. Rows travel as Parquet files that the requests name, so this
process needs nothing but pyspark. It ends when its input ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
SESSION = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Tables of a few rows: tasks and compiled queries cost more than they save.
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}


HELD_SECONDS = 90


def hold(place: str) -> str:
    """Tells that it is called by a file, and returns when there is another; a function for SQL."""
    with open(os.path.join(place, "reached"), "w"):
        pass
    deadline = time.monotonic() + HELD_SECONDS
    while not os.path.exists(os.path.join(place, "go")):
        if time.monotonic() > deadline:
            return "nobody let it go on"
        time.sleep(0.01)
    return "go"


def start(bundle: str, scratch: str, zone: str) -> SparkSession:
    """Starts the one session of this process, with everything it leaves behind in `scratch`."""
    options = f"{JVM_OPTIONS} -Duser.timezone={zone} -Dderby.system.home={scratch}"
    builder = SparkSession.builder.master("local[2]").appName("peer")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    builder = (
        builder.config("spark.jars", bundle)
        .config("spark.driver.extraClassPath", bundle)
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.sql.warehouse.dir", os.path.join(scratch, "warehouse"))
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.udf.register("hold", hold)
    return session


def hand_over(frame: DataFrame, out: str) -> dict[str, Any]:
    """Writes the rows where the asker wants them and answers with Spark's own schema."""
    frame.coalesce(1).write.mode("overwrite").parquet(out)
    return json.loads(frame.schema.json())


def read(spark: SparkSession, request: dict[str, Any]) -> Any:
    frame = spark.read.format("hudi").options(**request["options"]).load(request["path"])
    return hand_over(frame, request["out"])


def write(spark: SparkSession, request: dict[str, Any]) -> Any:
    frame = spark.read.parquet(request["rows"])
    writer = frame.write.format("hudi").options(**request["options"]).mode(request["mode"])
    writer.save(request["path"])


def sql(spark: SparkSession, request: dict[str, Any]) -> Any:
    frame = None
    for statement in request["statements"]:
        frame = spark.sql(statement)
    if frame is not None and request["out"]:
        return hand_over(frame, request["out"])
    return None


COMMANDS = {"read": read, "write": write, "sql": sql}


def answer(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": COMMANDS[request["command"]](spark, request)}
    # Whatever went wrong on the far side is the asker's to judge.
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    settings = json.loads(sys.argv[1])
    # The JVM inherits descriptor 1 and writes to it: keep it for the answers alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    spark = start(settings["bundle"], settings["scratch"], settings["zone"])
    answers.write(json.dumps({"ok": {"spark": spark.version}}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(answer(spark, json.loads(line))) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
