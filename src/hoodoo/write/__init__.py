"""The write path, the same for every engine: from rows to a commit.

Read in this order:
    `index/`        which file group has a key, and where new rows go
    `planning/`     rows prepared, keys located, file groups assigned
    `files/`        what a task does: one file group in, new files and write stats out
    `commit/`       begin (take an instant) and publish (commit through the gate)
    `execute`       the one way from begin to commit
    `retry`         dead writes rolled back first; conflicts retried
    `operations`    upsert, insert, overwrite, delete on Arrow tables
    `detached`      a bulk insert whose parts run in separate processes
    `row_changes/`  delete, update and merge by predicate

Flow: `retry.run_with_retries` -> `operations.write` -> `prepare.prepare` -> `locate.locate` ->
`locate.route_rows` -> `execute.execute` (`begin.begin`, stage, `finalize.finalize`,
`publish.commit`).
If a write fails, `execute.execute` rolls it back at once; if its process dies, recovery does.

In: a `TableRef` and rows as an Arrow table; Spark calls the same functions. Out: `CommitResult`.
Not here: Spark's tasks (spark/write), conflict rules (concurrency/conflicts), services after a
commit (services/upkeep).
"""
