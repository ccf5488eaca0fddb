"""The writer that the tour kills: a Spark driver in a process of its own.

`python -m hoodoo.cli.demo.killed_writer TABLE PASS`. It has one core, so its tasks run one after
the other: when the second one reports, the files of the first are there.
"""

from __future__ import annotations

import sys

from hoodoo.cli.demo.checkpoint import report_at
from hoodoo.cli.spark import start_spark

HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": 1000,
    "hoodie.client.heartbeat.tolerable.misses": 3,
}
"""So that nobody has to wait for the usual ten minutes until it counts as dead."""
CITY = "atlantis"
QUICK = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def main(place: str, pass_: str) -> None:
    """Begin a bulk insert, and wait in the middle of it for the end."""
    from hoodoo.api.create import open_table

    with start_spark("hoodoo demo, the writer that dies", "local[1]", QUICK) as spark:
        rows = spark.range(0, 2000, 1, 2).selectExpr(
            "concat('lost-', id) AS trip_id", f"'{CITY}' AS city", "1D AS fare", "9L AS ts"
        )
        reporting = rows.mapInArrow(report_at(pass_, "lost-1000"), rows.schema)
        open_table(place, HEARTBEAT).bulk_insert(reporting)


if __name__ == "__main__":
    main(*sys.argv[1:])
