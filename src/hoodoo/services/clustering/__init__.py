"""Clustering: rows of many small files go to few large files, sorted or along a curve.

Read in this order:
    `clustering`  schedules a clustering and runs it
    `plan`        which slices are rewritten together, pure; plans are those of Apache Hudi
    `tasks`       executor side: slices -> new base files with the same rows
    `row_order`   the order of rows: by columns, z-order, hilbert

Flow: `clustering.schedule_clustering` -> `clustering.run_clustering` -> `execute.run_rewrite`
(services/plans) -> `tasks.cluster_group` for each group -> a replace commit.

In: a `TableRef`, terms, an engine. Out: a plan; `ServiceResult`.
Not here: conflicts with writes (concurrency/conflicts/rules), the life of the plan
(services/plans), keys that switch it on (config/clustering). Tables with buckets are refused.
"""
