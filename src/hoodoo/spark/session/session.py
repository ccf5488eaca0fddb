"""The Spark session that a DataFrame belongs to, and what its jobs are called."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hoodoo.errors import (
    CommitFailed,
    EngineFailed,
    HoodooError,
    InputError,
    SchemaMismatch,
    UnsupportedFeature,
)
from hoodoo.runtime.engine import StopSignal

_CANCEL_AGAIN_S = 0.1
_DESCRIPTION = "spark.job.description"
_HOODOO_ERROR = re.compile(r"^hoodoo\.errors\.(\w+): (.*)$", re.MULTILINE)
_PLAIN: Mapping[str, type[HoodooError]] = {
    kind.__name__: kind for kind in (InputError, SchemaMismatch, UnsupportedFeature, CommitFailed)
}
_ERROR_NAME = re.compile(r"^(Caused by: )?[\w.$]+(Error|Exception)\b.*:")
_REFUSAL = re.compile(r"\[hoodoo:(.*?):hoodoo\]", re.DOTALL)


def session_of(rows: DataFrame) -> SparkSession:
    """The session of a DataFrame; Spark Connect has no executors that we could reach."""
    if not isinstance(rows, DataFrame):
        raise InputError(f"rows must be a DataFrame, not {type(rows).__name__}")
    return check_session(rows.sparkSession)


def check_session(session: object) -> SparkSession:
    """A session that hoodoo can work with."""
    if not hasattr(session, "range"):
        raise InputError(f"a Spark session is needed, not {type(session).__name__}")
    if not isinstance(session, SparkSession) or not hasattr(session, "_jsparkSession"):
        raise UnsupportedFeature("Spark Connect is not supported; use a classic Spark session")
    if session.sparkContext._jsc is None:
        raise InputError("the Spark session was stopped")
    return session


@contextmanager
def describe_jobs(spark: SparkSession, text: str) -> Iterator[None]:
    """Jobs of this block carry a description that people see in Spark's pages and logs."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None unsets


@contextmanager
def stoppable_jobs(spark: SparkSession, stop: StopSignal | None) -> Iterator[None]:
    """Jobs of this block are cancelled once their end is requested, and fail with that error.

    By a tag of their own: the job group is the user's. A job that Spark does not know yet cannot be
    cancelled, so that is done again and again until the block is left.
    """
    if stop is None:
        yield
        return
    context, tag = spark.sparkContext, f"hoodoo-{uuid.uuid4()}"
    is_left = threading.Event()

    def cancel_jobs() -> None:
        while not is_left.is_set():
            context.cancelJobsWithTag(tag)
            is_left.wait(_CANCEL_AGAIN_S)

    def begin_to_cancel() -> None:
        threading.Thread(target=cancel_jobs, daemon=True).start()

    context.addJobTag(tag)
    try:
        with stop.calling(begin_to_cancel):
            yield
    except HoodooError:
        stop.check()
        raise
    finally:
        is_left.set()
        context.removeJobTag(tag)


@contextmanager
def override_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for this block; what the user had comes back after it."""
    before: dict[str, Any] = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def format_refusal(reason: str) -> str:
    """A text that, raised anywhere in a job, reaches the user as an `InputError`."""
    return f"[hoodoo:{reason}:hoodoo]"


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Failures of a job as errors of hoodoo's: what its code raised, or that the job failed."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        refusal_match = _REFUSAL.search(text)
        if refusal_match is not None:
            raise InputError(refusal_match[1]) from None
        worker_errors = _HOODOO_ERROR.findall(text)
        if worker_errors:
            kind, message = worker_errors[-1]
            raise _PLAIN.get(kind, EngineFailed)(message) from error
        raise EngineFailed(_last_error_line(text)) from error


def _last_error_line(text: str) -> str:
    """The last error that Python or Java names, in one line: what Spark says first is general."""
    error_lines = [line.strip() for line in text.splitlines() if _ERROR_NAME.match(line)]
    return error_lines[-1] if error_lines else " ".join(text.split())[:500]
