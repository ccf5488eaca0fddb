"""Writes of DataFrames: keys located, rows sent to the task of their file group, written there.

Read in this order:
    `write`         the operations, each a straight line from rows to a commit
    `prepare`       a DataFrame -> rows with keys, partition paths and hashes
    `collect_rows`  few rows: the driver collects them and plans as without Spark
    `collect_keys`  some rows: only keys come to the driver
    `join_keys`     many rows: keys are joined in Spark with the keys of files
    `stored_keys`   keys of a table's files as DataFrames, and looking keys up
    `bucket_hash`   bucket numbers as a Spark column
    `stage`         driver: sends each row to the task of its file group
    `tasks`         executors: run the handle of each file group

Flow: `write.write` -> `prepare.prepare` -> `collect_keys.collect_keys` or `join_keys.tag` ->
`assignment.assign` (write/planning) -> `execute.execute` (write) with `stage.write_routed` as its
stage -> `tasks.write_file_groups` runs the handles of write/files on executors.
A bulk insert is written where its rows are (`stage.write_streamed`). Spark may run a task twice:
write/files/exactly_once lets one attempt count.

In: a `TableRef` and a DataFrame. Out: `CommitResult`.
Not here: rules of the indexes (write/index), files (write/files), commit (write/commit).
"""
