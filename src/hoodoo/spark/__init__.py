"""hoodoo on Spark: DataFrames in and out, and the only code that imports pyspark.

Read in this order:
    `session/`        sessions, Python workers, jobs and their errors
    `schema`          Arrow schemas <-> Spark schemas
    `placement`       which task a row or an item goes to
    `engine`          `SparkEngine`: runs per-file tasks on executors
    `marker_server/`  collects the markers of a write in the driver
    `datasource/`     format("hoodoo") for reads, appends and streams
    `read/`           tables as DataFrames
    `write/`          upsert, insert, delete, bulk insert of DataFrames
    `row_changes/`    delete, update, merge by predicate
    `worker_daemon`   forks Spark's Python workers with hoodoo imported

In: a Spark session or a DataFrame, and a `TableRef`. Out: DataFrames; `CommitResult`.
Not here: the commit protocol, indexes, handles: Spark carries rows and keys to the same functions
of write and read that run without Spark. Nothing below this package imports it.
"""
