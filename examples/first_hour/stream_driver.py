"""Streams files into a table, follows the table with a second stream, and tells what it does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from driver_process import tell
from session import make_session

import hoodoo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUICK_HEARTBEATS = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
}
"""A dead driver is silent: its batch is written again once it was silent for three seconds."""


def main() -> None:
    """Take in all files that are there, until the follower has them too."""
    place = Path(sys.argv[1])
    spark = make_session()
    hoodoo.register(spark)
    sink = hoodoo.stream_to(
        hoodoo.open_table(place / "clicks", options=QUICK_HEARTBEATS),
        operation="upsert",
        on_commit=lambda done: tell("committed", skipped=done.is_skipped),
    )

    def write(rows: DataFrame, batch: int) -> None:
        tell("begun", batch=batch)
        sink(rows, batch)

    def note(rows: DataFrame, batch: int) -> None:
        # A batch that comes again takes the place of its first copy.
        rows.write.mode("overwrite").parquet(str(place / f"followed/{batch:03}"))

    changes = spark.readStream.format("hoodoo").option("columns", "id,page,seen")
    following = (
        changes.load(str(place / "clicks"))
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(place / "checkpoints/follow"))
        .trigger(processingTime="1 second")
        .start()
    )
    files = spark.readStream.schema("id long, page string, seen long")
    loading = (
        files.option("maxFilesPerTrigger", 1)
        .json(str(place / "incoming"))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(place / "checkpoints/load"))
        .trigger(availableNow=True)
        .start()
    )
    loading.awaitTermination()
    following.processAllAvailable()
    following.stop()
    tell("done")
    spark.stop()


if __name__ == "__main__":
    main()
