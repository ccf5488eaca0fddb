"""Sessions made ready for hoodoo: its data source known, a Python in the workers that has it."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from hoodoo.spark.datasource.source import TableSource
from hoodoo.spark.session.session import check_session, session_of
from hoodoo.spark.session.worker_python import check_workers, is_driver_python, use_driver_python

_known_sessions: WeakSet[SparkSession] = WeakSet()


def ready_session(spark: object) -> SparkSession:
    """A session that hoodoo can work with.

    For data sources that it finds, the JVM picks a Python by itself. Where that is not the driver's
    but the session's workers run the driver's, the source is registered, so that they read it.
    """
    session = check_session(spark)
    if session in _known_sessions:
        return session
    _known_sessions.add(session)
    use_driver_python(session.sparkContext)
    context: Any = session.sparkContext
    if context.pythonExec == sys.executable and not is_driver_python(_python_of_jvm(context)):
        _make_known(session)
    return session


def ready_workers(rows: DataFrame) -> SparkSession:
    """The session of rows to write; fails at once if its workers cannot run hoodoo."""
    session = ready_session(session_of(rows))
    check_workers(session)
    return session


def register(spark: object) -> None:
    """Make the data source known to a session."""
    _make_known(ready_session(spark))


def _python_of_jvm(context: Any) -> str:
    """By PYSPARK_DRIVER_PYTHON or PYSPARK_PYTHON of its own environment, else `python3`."""
    of_scala = getattr(context._jvm, "org.apache.spark.api.python.PythonUtils$")
    return str(getattr(of_scala, "MODULE$").defaultPythonExec())


def _make_known(session: SparkSession) -> None:
    try:
        session.dataSource.register(TableSource)
    except AnalysisException as error:
        # Spark 4.0 does not replace a source that it found by itself: which is this one.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
