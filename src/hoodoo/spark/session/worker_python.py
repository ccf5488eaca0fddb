"""The Python of Spark's workers: the driver's own in local mode, one that is looked at elsewhere.

PySpark runs `python3` in its workers unless PYSPARK_PYTHON said otherwise when the session was
made. In a virtual environment that is not activated, that is a Python without hoodoo. Sessions are
made before hoodoo sees them, so this is settled on a session that exists already.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, cast
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from hoodoo.errors import EngineFailed
from hoodoo.spark.session.session import describe_jobs, translate_spark_errors

_UNSET = "python3"  # what PySpark runs if nobody chose a Python
_ADVICE = (
    "Spark's workers need a Python with the driver's packages: set PYSPARK_PYTHON (or "
    "spark.pyspark.python for spark-submit) to its path on the workers before the session is made, "
    "or ship an environment with --archives env.tar.gz#env and PYSPARK_PYTHON=./env/bin/python"
)

_checked_contexts: WeakSet[SparkContext] = WeakSet()


def use_driver_python(context: SparkContext) -> None:
    """In local mode, have workers run the driver's Python, unless the user chose another."""
    choice: Any = context
    if _is_local(context) and choice.pythonExec == _UNSET:
        choice.pythonExec = sys.executable


def check_workers(spark: SparkSession) -> None:
    """Fail before any work is done if workers cannot run hoodoo; one task, once a context."""
    context = spark.sparkContext
    is_own = _is_local(context) and cast(Any, context).pythonExec == sys.executable
    if is_own or context in _checked_contexts:
        return
    try:
        with describe_jobs(spark, "hoodoo: look at the workers' Python"), translate_spark_errors():
            python, version, problem = context.parallelize([0], 1).map(_report_python).first()
    except EngineFailed as error:
        raise EngineFailed(f"{error} {_ADVICE}") from error.__cause__
    _, own_version, _ = _report_python(0)
    if problem is None and version != own_version:
        problem = f"it has hoodoo {version}, and the driver {own_version}"
    if problem is not None:
        raise EngineFailed(f"the workers run {python}: {problem}. {_ADVICE}")
    _checked_contexts.add(context)


def is_driver_python(program: str) -> bool:
    """Whether a program of this name is the Python that runs the driver."""
    path, own = shutil.which(program), os.path.abspath(sys.executable)
    if path is None:
        return False
    # Pythons of several environments may be links to one file; their directories tell them apart.
    is_neighbour = os.path.dirname(os.path.abspath(path)) == os.path.dirname(own)
    return is_neighbour and os.path.samefile(path, own)


def _is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


def _report_python(_: int) -> tuple[str, str | None, str | None]:
    """In a worker: its Python, its hoodoo, and what is missing."""
    import sys
    from importlib import import_module

    try:
        for name in ("pandas", "pyarrow", "hoodoo"):  # PySpark needs pandas for Arrow
            package = import_module(name)
    except ImportError as error:
        return sys.executable, None, str(error)
    return sys.executable, package.__version__, None


# It is sent as code: a worker without hoodoo cannot import it.
_report_python.__module__ = "__main__"
