"""What users of Python hold: create_table, open_table, and Table with all its calls.

Read in this order:
    `create`     creates, opens and upgrades a table
    `table`      `Table`: reads and writes are its own calls, all others those of its groups
    `handle`     what `Table` and its groups share: one open table, one engine
    `reads`      to_arrow, read, changes, batches, counts
    `writes`     upsert, insert, delete, update, merge; chooses Spark or this process
    `services`   compaction, clustering, cancel; recover and rollback (`Table.services`)
    `indexes`    create, run and drop indexes (`Table.indexes`)
    `retention`  clean, archive, savepoints, restore (`Table.retention`)
    `inspect`    reports (`Table.inspect`)
    `spark`      stream_to, configure, register
    `results`    what calls return, importable from `hoodoo`

In: arguments as users write them. Out: Arrow tables, DataFrames, results, reports.
Flow of a write: `Table.upsert` -> `upkeep.write_and_run_services` (services): requested indexes ->
`retry.run_with_retries` (write) with `operations.write` or spark/write -> services that are due.
Not here: logic. A call checks its arguments and passes them to the room below. Spark and other
large imports come inside the calls, so that import hoodoo stays fast.
"""

from hoodoo.api.create import create_table, open_table, upgrade_table
from hoodoo.api.spark import configure, register, stream_to
from hoodoo.api.table import Table

__all__ = [
    "Table",
    "configure",
    "create_table",
    "open_table",
    "register",
    "stream_to",
    "upgrade_table",
]
