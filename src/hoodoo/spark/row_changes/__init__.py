"""Delete, update and merge by predicate on Spark, each as one commit.

Read in this order:
    `operations`   finds the rows that match, computes the changes, commits them once
    `expressions`  what becomes of a row, as Spark columns
    `few_rows`     few matches: tasks find them, the driver plans the changes
    `many_rows`    many matches: tagged and written where they are

Flow: `operations.change` -> `few_rows.collect_changes`; if the rows are too many, Spark finds them
and `many_rows.write_frames` writes them -> `execute.execute` (write).

In: a request of write/row_changes, a session, a source DataFrame. Out: `CommitResult`, or None.
Not here: the requests and their checks (write/row_changes/requests), the write stage
(spark/write/stage).
"""
