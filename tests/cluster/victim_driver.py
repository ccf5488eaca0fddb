"""A Spark driver that writes block after block until it is killed, and notes what it does.

`python victim_driver.py JOURNAL SPEC`; the spec has: uri, options, settings (of the session), first
(the number of the first write), living (the blocks that can be updated), writes (how many to do).
"""

from __future__ import annotations

import logging
import sys

from cluster.driver import session
from processes.blocks import keys_of, rows_of
from pyspark.sql import SparkSession
from support.carriers import CARRIERS
from support.processes import spec_of

import hoodoo
from hoodoo.errors import CommitUnknown, HoodooError

KINDS = ("bulk_insert", "upsert", "insert", "delete", "upsert")


def write(spark: SparkSession, table: hoodoo.Table, number: int, kind: str, block: int) -> str:
    """One write about one block; its instant."""
    rows = keys_of((0, block)) if kind == "delete" else rows_of((0, block), number)
    return str(getattr(table, kind)(spark.createDataFrame(rows)).instant)


def main() -> None:
    """Write until it is enough."""
    journal, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = session(spec["settings"])
    journal.note("ready", jvm=spark.sparkContext._gateway.proc.pid)
    living, carriers = list(spec["living"]), list(CARRIERS.values())
    for number in range(spec["first"], spec["first"] + spec["writes"]):
        kind = KINDS[number % len(KINDS)] if living else "insert"
        is_new = kind.endswith("insert")
        block = number if is_new else living[number % len(living)]
        facts = {"number": number, "kind": "insert" if is_new else kind, "block": block}
        journal.note("intent", **facts)
        table = hoodoo.open_table(
            spec["uri"], {**spec["options"], **carriers[number % len(carriers)]}
        )
        try:
            instant = write(spark, table, number, kind, block)
        except CommitUnknown as error:
            journal.note("unknown", error=str(error), **facts)
            continue
        except HoodooError as error:  # such as a heartbeat that was late on a busy machine
            logging.exception("write %d", number)
            journal.note("failed", error=type(error).__name__, **facts)
            continue
        journal.note("ack", instant=instant, **facts)
        if kind == "delete":
            living.remove(block)
        elif is_new:
            living.append(block)
    journal.note("done")


if __name__ == "__main__":
    main()
