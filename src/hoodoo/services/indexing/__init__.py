"""Indexes of the metadata table: planned, built while others write, dropped.

Read in this order:
    `plan`      plans a build: from then on every commit writes the new partition
    `build`     makes base files, adds what was missed, then lists the partition as complete
    `entries`   the entries that a partition begins with, read from the table
    `catch_up`  commits of other engines that did not write the new partition
    `create`    indexes that options ask for; a new table's metadata table, built at once
    `drop`      takes partitions out of use and deletes them

Flow: `plan.schedule_index` lists the partition as inflight by a decision of the head ->
`build.run_index` owns the plan, writes base files, runs `catch_up.catch_up` in a transaction and
lists the partition as complete (`gate.change_properties`). Readers use it from then on.
If a build dies, its plan is pending; the next `build.run_index` goes on with the files that exist.

In: a `TableRef`, names of indexes, an engine. Out: which indexes are in use.
Not here: changes of an index by a commit (metadata_table/recorder), how writes find keys
(write/index), the report (inspect/indexes).
"""
