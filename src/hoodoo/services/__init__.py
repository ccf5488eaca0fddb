"""Table services: each with its plan, its rules and its execution; and what runs them when due.

Read in this order:
    `plans/`       the life of any plan: scheduled, owned, executed, cancelled
    `indexing/`    builds and drops indexes of the metadata table beside writers
    `clean/`       deletes old versions of data files
    `savepoints`   protects the files of a commit from cleaning
    `archive/`     moves old instants into the archived timeline
    `compaction/`  merges logs into base files, logs into logs, and compacts the metadata table
    `clustering/`  rewrites small files into large ones, in a useful order
    `restore/`     takes completed commits back
    `upgrade/`     brings a table of version 6 or 8 to version 9
    `registry`     the planned services: when due, how planned, how run
    `upkeep`       runs what is due: after a write, or in a process of its own
    `repairs`      the repairs that hoodoo doctor offers

Code that deletes data files: clean/clean (old versions), restore/restore (commits taken back), and
outside this package recovery (`strays.delete_files`: rollback, sweep, strays) and write/files
(`finalize.finalize`, `Outputs.withdraw`: files of a write that its commit does not name).
After a write, `upkeep.run_services_after_write` runs what is due; hoodoo upkeep calls
`upkeep.run_due_services`, which also recovers and cancels overdue plans.

In: a `TableRef` and an engine. Out: a result per service.
Not here: rolling back dead writes (recovery), reports (inspect). But for restore, a service never
changes the rows of the latest snapshot.
"""
