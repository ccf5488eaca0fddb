"""A driver that streams files into a table, and is killed right after a commit if asked.

`python stream_driver.py JOURNAL SPEC`; the spec has: place (with `in`, `t` and `check` below it),
operation, and kills: whether it dies between the commit of its first new batch and the checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from support.processes import spec_of
from support.sessions import local_session

import hoodoo
from hoodoo.write.commit.publish import CommitResult


def main() -> None:
    """Stream until all files are in the table, or until it dies."""
    journal, spec = spec_of(sys.argv[1:])
    place = Path(spec["place"])
    spark = local_session(place / f"session{os.getpid()}")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid

    def note(done: CommitResult) -> None:
        journal.note("skipped" if done.is_skipped else "committed", instant=done.instant)
        if spec["kills"] and not done.is_skipped:
            os.kill(jvm, signal.SIGKILL)  # it waits for this very call before it checkpoints
            os.kill(os.getpid(), signal.SIGKILL)

    sink = hoodoo.stream_to(place / "t", operation=spec["operation"], on_commit=note)

    def write(rows: DataFrame, batch_id: int) -> None:
        journal.note("batch", number=batch_id)
        sink(rows, batch_id)

    stream = spark.readStream.schema("id long, v long").option("maxFilesPerTrigger", 1)
    query = (
        stream.parquet(str(place / "in"))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(place / "check"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    journal.note("done")


if __name__ == "__main__":
    main()
