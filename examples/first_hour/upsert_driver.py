"""Upserts rows of its own and rows that another driver writes too, and tells what is committed."""

from __future__ import annotations

import sys

from driver_process import tell, wait_for_go
from session import make_session

import hoodoo

ROUNDS = 5
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": 20}


def main() -> None:
    """Each round writes one partition of its own, and the shared one."""
    place, name = sys.argv[1:]
    spark = make_session()
    table = hoodoo.open_table(place, options=RETRIES)
    spark.range(1).count()
    tell("ready")
    wait_for_go()
    for number in range(ROUNDS):
        rows = [
            (f"{name}-{number}", name, name, number),
            (f"{name}-shared-{number}", "shared", name, number),
            ("counter", "shared", name, number),
        ]
        frame = spark.createDataFrame(rows, "id string, part string, writer string, round long")
        done = table.upsert(frame)
        tell("acknowledged", ids=[row[0] for row in rows], completed=done.completion_time)
    spark.stop()


if __name__ == "__main__":
    main()
