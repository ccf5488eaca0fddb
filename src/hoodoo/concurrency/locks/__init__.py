"""The table's lock: four providers, one protocol, and waiting for the lock.

Read in this order:
    `lock`        protocols `Lock` and `Fence`, and the text that names the holder
    `table_lock`  makes the lock that the settings name; waits for it; breaks it
    `in_process`  a lock between threads of one process
    `lease`       a lease object on the table's own store (storage lease, filesystem lock)
    `zookeeper`   a queue of nodes in ZooKeeper, shared with Apache Hudi

Flow: `table_lock.hold_lock` waits in the line of this process, then tries until it has the lock or
the wait time is over (`LockTimeout`). The holder calls `Fence.ensure_publish_window` before each
publishing write; it may publish only within the publish budget (`Fence.budget_s`) after the lock
was last confirmed.
If the holder dies, the lock stays until its lease or session ends; then the next contender takes
it. Only `table_lock.break_lock` (hoodoo lock break) removes it earlier.

In: a `TableRef` and a purpose for people. Out: a held lock, as a `Fence`.
Not here: the decision about a commit. The head decides (transactions/head), so a writer that loses
the lock unnoticed cannot publish on old facts.
"""
