"""A Spark of one's own for a command: started quietly, with its output in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from hoodoo.errors import EngineFailed
from hoodoo.spark.session.configure import recommended_settings

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def open_session(app: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for this block; one that runs in this process already is used, and left.

    What Spark has to say is in a file, which is kept, and named in the error, if Spark failed.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    descriptor, log = tempfile.mkstemp(prefix="hoodoo-spark-", suffix=".log")
    try:
        context = _start_context(_conf(app, master, settings), descriptor, log)
        try:
            yield SparkSession(context)
        finally:
            context.stop()
    except EngineFailed as error:
        raise EngineFailed(f"{error} (Spark's log: {log})") from error
    except BaseException:
        os.unlink(log)
        raise
    os.unlink(log)


def _conf(app: str, master: str, settings: Mapping[str, str]) -> SparkConf:
    here = _ON_THIS_MACHINE if master.startswith("local") else {}
    spark_settings = {
        "spark.app.name": app,
        "spark.master": master,
        **recommended_settings(pyspark.__version__),
        **_SETTINGS,
        **here,
        **settings,
    }
    return SparkConf().setAll(list(spark_settings.items()))


def _start_context(conf: SparkConf, descriptor: int, log: str) -> SparkContext:
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = True  # errors are told by whoever catches them
    try:
        streams = {"stdout": descriptor, "stderr": descriptor}
        gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]  # has no types
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage() or error.java_exception.toString())
        raise EngineFailed(f"Spark did not start: {reason}") from error
    except PySparkException as error:
        raise EngineFailed(f"Spark did not start: {_last_log_line(log) or error}") from error
    finally:
        os.close(descriptor)


def _last_log_line(log: str) -> str:
    """The last line that is none of a stack trace."""
    with open(log, errors="replace") as file:
        lines = [line.strip() for line in file]
    return next((line for line in reversed(lines) if line and not line.startswith("at ")), "")
