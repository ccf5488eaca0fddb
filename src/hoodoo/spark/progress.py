"""How far Spark is, told from time to time while it works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark import StatusTracker
from pyspark.sql import SparkSession

log = logging.getLogger("hoodoo.spark")

_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of the stages that run at one moment."""

    done: int
    total: int


@contextmanager
def watch_progress(spark: SparkSession, show: Callable[[Tasks], None]) -> Iterator[None]:
    """Have `show` called from another thread, some times a second, while stages run."""
    tracker, ended = spark.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            try:
                tasks = _count_tasks(tracker)
            except Exception as error:  # whatever it is: the work is more than the picture of it
                log.info("no_progress error=%s", error)
                return
            if tasks.total:
                show(tasks)

    thread = threading.Thread(target=watch, name="hoodoo progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _count_tasks(tracker: StatusTracker) -> Tasks:
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]
    return Tasks(
        done=sum(stage.numCompletedTasks for stage in active),
        total=sum(stage.numTasks for stage in active),
    )
