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
class TaskProgress:
    """The tasks of the stages that run at one moment."""

    done: int
    total: int


@contextmanager
def watch_progress(spark: SparkSession, show: Callable[[TaskProgress], None]) -> Iterator[None]:
    """Have `show` called from another thread, some times a second, while stages run."""
    tracker, end = spark.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        while not end.wait(_EVERY_S):
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
        end.set()
        thread.join()


def _count_tasks(tracker: StatusTracker) -> TaskProgress:
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]
    return TaskProgress(
        done=sum(stage.numCompletedTasks for stage in active),
        total=sum(stage.numTasks for stage in active),
    )
